"""The prove runner on a small project of its own: it must tell a guard from an empty test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import prove_plugin
from tests.support.cases import Case, case

ROOT = Path(__file__).parents[3]

PRODUCT = """
def doubled(number):
    return 2 * number

async def fetched():
    return "text"

class Rule:
    @staticmethod
    def holds(number):
        return number > 0
"""

GUARDS = """
import asyncio
from product import Rule, doubled, fetched
from tests.support.cases import case

@case("X1", breaks="product:doubled", naive=lambda number: number)
def test_x1_doubles():
    assert doubled(2) == 4

@case("X2", breaks="product:fetched")
def test_x2_fetches():
    assert asyncio.run(fetched()) == "text"

@case("X3", breaks="product:Rule.holds", naive=lambda number: True)
def test_x3_negative_numbers_break_the_rule():
    assert not Rule.holds(-1)
"""

EMPTY = """
from product import doubled
from tests.support.cases import case

@case("Y1", breaks="product:doubled", naive=lambda number: number)
def test_y1_passes_either_way():
    assert doubled(0) == 0
"""

RENAMED = """
from tests.support.cases import case

@case("Z1", breaks="product:tripled")
def test_z1_guards_something_that_is_gone():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "product.py").write_text(PRODUCT)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return tmp_path


def prove(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.support.prove", *arguments, "--paths", str(project)],
        cwd=project,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{project}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a second per pytest process, and no plugin is needed here
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_guards_are_proved_and_listed_with_their_seams(project: Path) -> None:
    (project / "test_guards.py").write_text(GUARDS)
    run = prove(project)
    assert run.returncode == 0, run.stdout + run.stderr
    assert [line.split() for line in run.stdout.splitlines()[1:4]] == [
        ["X1", "product:doubled", "proved"],
        ["X2", "product:fetched", "proved"],
        ["X3", "product:Rule.holds", "proved"],
    ]


def test_a_test_that_still_passes_fails_the_command(project: Path) -> None:
    (project / "test_guards.py").write_text(GUARDS)
    (project / "test_empty.py").write_text(EMPTY)
    run = prove(project, "X1", "Y1")
    assert run.returncode == 1
    assert "STILL PASSES" in run.stdout
    assert run.stdout.splitlines()[-1] == "1 of 2 proved"


def test_a_seam_that_does_not_exist_is_no_proof(project: Path) -> None:
    (project / "test_renamed.py").write_text(RENAMED)
    run = prove(project)
    assert run.returncode == 1
    assert "DID NOT RUN" in run.stdout


def test_asking_for_an_unknown_case_is_wrong_usage(project: Path) -> None:
    (project / "test_guards.py").write_text(GUARDS)
    run = prove(project, "X9")
    assert (run.returncode, "X9" in run.stderr) == (2, True)


def test_a_seam_must_be_written_in_full() -> None:
    with pytest.raises(ValueError, match=r"package\.module:function"):
        case("X1", breaks="product.doubled")


def test_breaking_reaches_every_importer_and_is_undone() -> None:
    original = prove_plugin.broken
    restore = original(Case("X1", f"{prove_plugin.__name__}:broken", None, "here"))
    try:
        assert prove_plugin.broken is not original
    finally:
        restore()
    assert prove_plugin.broken is original
