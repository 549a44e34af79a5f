"""The hook that lets no test skip itself unseen, in a pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="no mounts here")
def test_marked(): ...

def test_by_itself():
    pytest.skip("no texts here")

@pytest.mark.other_platform
@pytest.mark.skipif(True, reason="for another system")
def test_elsewhere(): ...

@pytest.mark.xfail(strict=True)
def test_known_to_fail():
    raise AssertionError

def test_good(): ...
"""


def outcome(folder: Path, ci: str) -> str:
    """The output of pytest over a folder, with its exit code in front."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = other_platform: elsewhere\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "tests.support.skips", str(folder)],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{run.returncode}\n{run.stdout}"


@pytest.mark.parametrize("ci", ["true", "1"])
def test_a_skip_is_a_failure_with_its_reason_where_ci_is_set(tmp_path: Path, ci: str) -> None:
    """A mark skips in the set-up, which pytest counts as an error."""
    (tmp_path / "test_them.py").write_text(SKIPS)
    shown = outcome(tmp_path, ci)
    assert shown.startswith("1\n")
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in shown
    assert "no mounts here" in shown
    assert "no texts here" in shown


@pytest.mark.parametrize("ci", ["", "false"])
def test_elsewhere_a_skip_stays_one(tmp_path: Path, ci: str) -> None:
    (tmp_path / "test_them.py").write_text(SKIPS)
    shown = outcome(tmp_path, ci)
    assert shown.startswith("0\n")
    assert "1 passed, 3 skipped, 1 xfailed" in shown


def test_a_module_that_skips_itself_is_an_error_where_ci_is_set(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text('import pytest\n\npytest.importorskip("no_such_module")\n')
    assert outcome(tmp_path, "true").startswith("2\n")
    assert outcome(tmp_path, "").startswith("5\n")
