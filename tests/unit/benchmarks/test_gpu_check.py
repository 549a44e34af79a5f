"""The check for GPUs where there is none: it says so; its rows run on the CPU, where the library works alike."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import Computed, Found, RoundRobin
from benchmarks.report import ROOT
from nllb_predictor.convert.manifest import Quantization
from nllb_predictor.errors import DeviceMissing
from tests.support.conversion import convert_to

GOOD = Found("GPU of a test", 4006, (Computed("int8", "int8_float32", ""),), RoundRobin(10, 300, (301, 290)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu") / "model"
    convert_to(gpu_check.TINY, folder, Quantization.INT8)
    return folder


def test_without_a_device_it_says_so_and_writes_nothing() -> None:
    before = gpu_check.PAGE.read_bytes()
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == DeviceMissing.exit_code
    assert "no CUDA device was found" in ended.stderr
    assert gpu_check.PAGE.read_bytes() == before


def test_a_compute_type_that_is_not_there_is_replaced_and_the_effective_one_told(model: Path) -> None:
    found = {each.asked: each for each in gpu_check.compute_types(model, "cpu", ("int8", "int8_float16"))}
    assert found["int8"] == Computed("int8", "int8_float32", "")
    assert found["int8_float16"] == Computed("int8_float16", "int8_float32", "")


def test_a_model_that_does_not_load_is_told_and_not_good(model: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((model / "manifest.json").read_bytes())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    (computed,) = gpu_check.compute_types(tmp_path, "cpu", ("int8",))
    assert computed.effective == "none"
    assert str(tmp_path) in computed.verdict
    assert not replace(GOOD, computed=(computed,)).good


def test_models_are_loaded_in_turn_and_memory_is_asked_after_each(model: Path) -> None:
    readings = iter(range(100, 200))
    found = gpu_check.round_robin([model], "cpu", lambda: next(readings))
    assert found == RoundRobin(100, 101, tuple(range(102, 101 + gpu_check.ENGINES)))


@pytest.mark.parametrize(
    ("last", "back"), [(300 + gpu_check.MARGIN_MIB, True), (301 + gpu_check.MARGIN_MIB, False)]
)
def test_memory_that_stays_beyond_the_margin_is_not_good(last: int, back: bool) -> None:
    found = replace(GOOD, memory=RoundRobin(10, 300, (300, last)))
    assert found.good is back


def test_the_page_keeps_its_words_and_shows_only_the_latest_run() -> None:
    once = gpu_check.page(gpu_check.PAGE.read_text(), GOOD, "2026-01-01", "abc")
    twice = gpu_check.page(once, GOOD, "2026-02-02", "def")
    assert "| `int8` | `int8_float32` | as recorded |" in twice
    assert "not a multiple of 4" in twice
    assert "2026-01-01" not in twice
    assert twice.startswith(gpu_check.PAGE.read_text().partition(gpu_check.SEEN)[0])
