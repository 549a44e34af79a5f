"""The runner of the tiers writes unscaled runs down."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import run


def test_an_unscaled_run_is_written_down_with_date_and_durations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "UNSCALED_RUN", tmp_path / "unscaled-run.json")
    monkeypatch.setattr(run, "REPORTS", tmp_path)
    (tmp_path / "unit.xml").write_text(
        '<testsuite><testcase time="241.2" classname="a" name="b"/></testsuite>'
    )
    tiers = [run.TierResult("unit", 300.4, 0, passed=7, skipped=1)]
    run.record(tiers, 300.4, datetime(2026, 11, 30, tzinfo=UTC))
    assert json.loads((tmp_path / "unscaled-run.json").read_text()) == {
        "date": "2026-11-30",
        "seconds": 300,
        "tiers": [{"tier": "unit", "seconds": 300, "passed": 7, "skipped": 1}],
        "slowest": [{"seconds": 241, "test": "a::b"}],
    }
