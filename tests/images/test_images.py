"""The images: small, startable by anybody on a read-only root, and with the byte code of what they import."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import images
from tests.support.box import Box
from tests.support.live.models import TINY

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(1800)
"""The first test of a fresh machine builds the images."""

ASK = """
import json, sys, time, urllib.error, urllib.request
base = "http://127.0.0.1:8080/v2"
for _ in range(1200):
    try:
        urllib.request.urlopen(base + "/health/ready")
        break
    except urllib.error.URLError:
        time.sleep(0.05)
tensor = lambda name, text: {"name": name, "shape": [1], "datatype": "BYTES", "data": [text]}
inputs = [tensor("text", "And God said, Let there be light."), tensor("source_language", "eng_Latn"),
          tensor("target_language", "spa_Latn")]
request = urllib.request.Request(base + "/models/tiny/infer", json.dumps({"inputs": inputs}).encode(),
                                 {"content-type": "application/json"})
print("ANSWER", json.load(urllib.request.urlopen(request))["outputs"][0]["data"][0])
"""

LIFE = """
nllb-predictor convert /mnt/models /tmp/model --quantization int8 >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
python -v /opt/serval-live/bin/nllb-predictor serve /tmp/model --model-name tiny >/tmp/serve.log 2>&1 &
server=$!
python /mnt/models/ask.py || cat /tmp/serve.log
kill -TERM $server
wait $server
echo "EXIT $?"
grep '^# code object from' /tmp/serve.log
"""
"""One life of a predictor: convert, serve, answer, leave. `python -v` tells where each module came from."""


def compiled_at_start(log: str) -> list[str]:
    """Modules that Python had to compile: their code object came from a source file, not from byte code."""
    # Two threads may write into one line; what is no whole line of its own says nothing.
    return re.findall(r"^# code object from '?(/[^' ]*\.py)'?$", log, re.MULTILINE)


@pytest.fixture(scope="module")
def life(predictor: Box, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one life of a predictor printed, as a user that the image does not know."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "ask.py").write_text(ASK)
    for file in TINY.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    folder.chmod(0o755)
    return predictor.shell(LIFE, model=folder).stdout


def test_g3_a_predictor_lives_its_whole_life_as_any_user_on_a_read_only_root(life: str) -> None:
    assert re.search(r"^ANSWER \w+", life, re.MULTILINE), life[-3000:]
    assert "EXIT 0" in life


def test_a_predictor_compiles_nothing_when_it_starts(life: str) -> None:
    # Without byte code, importing kserve alone takes 1.7 s longer, at every cold start.
    assert life.count("code object from") > 500, "python -v told nothing"
    assert compiled_at_start(life) == []


def test_a_module_without_byte_code_would_be_noticed(predictor: Box) -> None:
    log = predictor.shell("echo 'x = 1' >/tmp/fresh.py; cd /tmp; python -v -c 'import fresh' 2>&1").stdout
    assert compiled_at_start(log) == ["/tmp/fresh.py"]


def test_g3_the_operator_starts_as_any_user_on_a_read_only_root(operator: Box) -> None:
    done = operator.shell("touch /opt/x; python -v /opt/serval-live/bin/engine-operator run 2>&1")
    assert "Read-only file system" in done.stdout
    assert "no Kubernetes API" in done.stdout, done.stdout[-2000:]
    assert compiled_at_start(done.stdout) == []


def test_the_operator_has_byte_code_of_all_its_modules(operator: Box) -> None:
    everything = "import pkgutil, importlib, engine_operator as e; [importlib.import_module(m.name) for m in"
    everything += " pkgutil.walk_packages(e.__path__, 'engine_operator.') if not m.name.endswith('__main__')]"
    log = operator.run("python", "-v", "-c", everything).stdout
    assert log.count("code object from") > 300
    assert compiled_at_start(log) == []


@pytest.mark.parametrize("part", ["predictor", "operator"])
def test_an_image_holds_neither_build_tools_nor_another_part(
    part: str, request: pytest.FixtureRequest
) -> None:
    box: Box = request.getfixturevalue(part)
    others = {
        "pip",
        "setuptools",
        "devcluster",
        "tinymodel",
        "torch",
        "transformers",
        "nllb_predictor",
        "engine_operator",
    }
    others -= {{"predictor": "nllb_predictor", "operator": "engine_operator"}[part]}
    probe = f"import importlib.util as u; print([n for n in {sorted(others)} if u.find_spec(n)])"
    assert box.run("python", "-c", probe).stdout.strip() == "[]"


def test_an_image_is_known_by_what_it_was_built_from_and_so_not_built_again(operator_image: str) -> None:
    assert operator_image == f"{images.PREFIX}/operator:{images.built_from(operator_image)}"
    assert images.built_from(f"{operator_image}-other") is None


def test_sizes_are_within_their_limits(predictor_image: str, operator_image: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "image-sizes"), "--json"]
    command += [f"predictor={predictor_image}", f"operator={operator_image}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    sizes = json.loads(done.stdout)
    assert 400 < sizes["predictor"]["megabytes"] <= 550
    assert 50 < sizes["operator"]["megabytes"] <= 130
    assert done.returncode == 0


def test_the_gpu_image_imports_and_says_that_it_found_no_device(gpu: Box, tmp_path: Path) -> None:
    found = gpu.run("python", "-c", "import ctypes; ctypes.CDLL('libcublas.so.12'); print('loads')").stdout
    assert found.strip() == "loads"
    for file in TINY.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tmp_path.chmod(0o755)
    script = "nllb-predictor convert /mnt/models /tmp/model --quantization int8 >/dev/null 2>&1; "
    script += "nllb-predictor serve /tmp/model --device cuda; echo EXIT $?; cat /dev/termination-log"
    done = gpu.shell(script, model=tmp_path).stdout
    assert "EXIT 0" not in done
    assert re.search(r"(?i)no (cuda )?(gpu|device)", done), done[-2000:]
