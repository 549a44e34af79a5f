"""Other ways to serve the same model, for the same sentences: a plain KServe predictor, BentoML, and transformers.

What the project itself does not need lies in environments of the cache, under names made of their requirements.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.models import widened
from benchmarks.report import ROOT
from benchmarks.serving import NAME, Sentence, closed_loop, priority
from nllb_predictor.text.tokenise import Tokenizer
from tests.support.venvs import python_with
from tinymodel.environment import training_python

REQUIREMENTS = Path(__file__).resolve().parent / "requirements-bentoml.txt"
START_SECONDS = 180


def plain(folder: Path, chosen: Sequence[Sentence], clients: int) -> float:
    """Sentences per second of the simple KServe predictor. It batches nothing, so few sentences tell its rate."""
    port = _free_port()
    command = [sys.executable, "-m", "benchmarks.plain_predictor", str(folder), str(port)]
    url = f"http://127.0.0.1:{port}/v1/models/{NAME}"
    bodies: list[dict[str, Any]] = [
        {"instances": [{"text": s.text, "source_language": s.source, "target_language": s.target}]}
        for s in chosen
    ]
    with _serving(command, url, {}):
        loop = closed_loop(f"{url}:predict", bodies, clients)
    return len(loop.ends) / loop.ends[-1]


def bentoml(folder: Path, chosen: Sequence[Sentence], clients: int) -> float:
    """Sentences per second of BentoML with its own batching, in the steady state. Its callers send pieces."""
    tokenizer = Tokenizer.from_folder(folder)
    bodies: list[dict[str, Any]] = [
        {"rows": [[each.target, *tokenizer.encode([each.text], each.source)[0]]]} for each in chosen
    ]
    program, port = python_with(REQUIREMENTS, "bentoml").parent / "bentoml", _free_port()
    command = [
        str(program),
        "serve",
        "batching_service:Translator",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--working-dir", str(REQUIREMENTS.parent)]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as home:
        variables = {"MODEL_FOLDER": str(folder), "BENTOML_HOME": home, "BENTOML_DO_NOT_TRACK": "True"}
        with _serving(command, url + "/readyz", variables):
            closed_loop(url + "/translate", bodies[:clients], 16)
            return closed_loop(url + "/translate", bodies, clients).rate


def transformers(chosen: Sequence[Sentence]) -> float:
    """Sentences per second of transformers in float32, one at a time."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([(each.text, each.source, each.target) for each in chosen], file)
        file.flush()
        script = "benchmarks/one_at_a_time.py"
        command = [*priority(), str(training_python()), script, str(widened()), file.name]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    rate: float = json.loads(done.stdout.splitlines()[-1])
    return rate


@contextmanager
def _serving(command: Sequence[str], ready: str, variables: Mapping[str, str]) -> Iterator[None]:
    """The server until the block ends, as soon as `ready` answers."""
    process = subprocess.Popen(
        [*priority(), *command],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
