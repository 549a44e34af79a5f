"""Limits of tests follow the pace of the run."""

import pytest

from tests.support.pace import MARKER, pytest_collection_modifyitems
from tests.support.waiting import FACTOR_VARIABLE


def limit_of(item: pytest.Item) -> float:
    """The limit that holds for a test: its own, or everybody's."""
    mark = item.get_closest_marker(MARKER)
    return float(mark.args[0] if mark is not None else item.config.getini(MARKER))


@pytest.mark.timeout(40)
def test_a_limit_that_a_test_names_is_stretched_as_its_waits_are(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = limit_of(request.node)
    monkeypatch.setenv(FACTOR_VARIABLE, "1")
    pytest_collection_modifyitems(request.config, [request.node])
    assert limit_of(request.node) == pytest.approx(before * 30)


def test_the_usual_limit_is_stretched_too(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = limit_of(request.node)
    monkeypatch.setenv(FACTOR_VARIABLE, "1/3")
    pytest_collection_modifyitems(request.config, [request.node])
    assert limit_of(request.node) == pytest.approx(before * 10)


@pytest.mark.parametrize("factor", ["1/30", "1/100"])
def test_a_quick_run_keeps_its_limits(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, factor: str
) -> None:
    before = limit_of(request.node)
    monkeypatch.setenv(FACTOR_VARIABLE, factor)
    pytest_collection_modifyitems(request.config, [request.node])
    assert limit_of(request.node) == before
