"""Folders that appear whole or not at all, whoever else works beside them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nllb_predictor.disk import scratch_folder, whole_folder
from nllb_predictor.errors import DestinationInUse
from tests.support.conversion import files


def test_a_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with whole_folder(target) as work:
        (work / "a").write_text("x")
        assert not target.exists()
    assert files(target) == {"a"}
    assert files(tmp_path) == {"model"}


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "model") as work:
        (work / "a").write_text(str(1 / 0))
    assert files(tmp_path) == set()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with whole_folder(tmp_path / "model") as work:
        (work / "a").write_text("x")
    assert files(tmp_path / "model") == {"a"}


def test_whoever_comes_second_is_refused_and_the_first_result_stays(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(DestinationInUse), whole_folder(target) as slow:
        finish_quicker(slow, target)
    assert (target / "a").read_text() == "quick"
    assert files(tmp_path) == {"model"}


def finish_quicker(slow: Path, target: Path) -> None:
    (slow / "a").write_text("slow")
    with whole_folder(target) as quick:
        (quick / "a").write_text("quick")


def test_the_folder_of_a_living_process_is_left_alone_and_that_of_a_dead_one_removed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from nllb_predictor.disk import scratch_folder\n"
        "with scratch_folder(pathlib.Path(sys.argv[1]), 'work') as folder:\n"
        "    print(folder.name, flush=True); sys.stdin.read()\n"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root / "predictor")}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        with scratch_folder(tmp_path, "work"):
            assert name in files(tmp_path)
        other.kill()
        other.wait(30)
    assert files(tmp_path) == {name}
    with scratch_folder(tmp_path, "work") as mine:
        assert files(tmp_path) == {mine.name}
    assert files(tmp_path) == set()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DestinationInUse, match="file"), whole_folder(tmp_path / "file" / "model"):
        pass
