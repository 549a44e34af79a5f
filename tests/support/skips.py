"""A test that skips itself is a promise that nobody checked: where CI is set, that is a failure.

On a person's machine a skip says what is missing there; a machine that is made for the tests has to have it. Only a
test marked `other_platform` may be skipped everywhere. A pytest plugin, loaded by `tests/conftest.py`.
"""

import os
from collections.abc import Generator

import pytest

MARKER = "other_platform"


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _words(longrepr: object) -> str:
    """Why, from pytest's (file, line, reason)."""
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns the skip of a test into its failure."""
    report = yield
    expected = hasattr(report, "wasxfail") or item.get_closest_marker(MARKER) is not None
    if report.skipped and not expected and _in_ci():
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set: {_words(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns the skip of a whole module into an error of collection."""
    report = yield
    if report.skipped and _in_ci():
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set: {_words(report.longrepr)}"
    return report
