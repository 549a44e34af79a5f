"""What a process says of itself, and what it leaves behind."""

import json
import time
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from nllb_predictor import cli
from nllb_predictor.errors import NotReady, ProbeMismatch, ShuttingDown, SourceMissing
from nllb_predictor.server import termination
from nllb_predictor.server.lifecycle import Lifecycle, PhaseName, Served, State, process_start
from serval_live_contract import schema
from tests.support.cases import case

LOADED = cast("Any", object())


@case("p53", breaks="nllb_predictor.server.lifecycle:Lifecycle.enter", naive=lambda self, state: None)
def test_p53_ready_only_between_a_proven_model_and_the_end() -> None:
    lifecycle = Lifecycle()
    for state in (State.STARTING, State.DOWNLOADING, State.LOADING, State.WARMING):
        lifecycle.enter(state)
        assert not lifecycle.ready
    lifecycle.succeed(LOADED)
    assert lifecycle.ready
    lifecycle.enter(State.LAME_DUCK)
    assert not lifecycle.ready


def test_a_process_that_leaves_while_it_loads_never_becomes_ready() -> None:
    lifecycle = Lifecycle()
    lifecycle.enter(State.LAME_DUCK)
    lifecycle.succeed(LOADED)
    assert not lifecycle.ready


def test_requests_are_refused_before_the_model_and_say_where_it_is() -> None:
    lifecycle = Lifecycle()
    lifecycle.enter(State.LOADING)
    with pytest.raises(NotReady, match="loading"), lifecycle.request():
        pass
    assert lifecycle.running == 0


def test_requests_are_answered_in_the_lame_duck_time_and_refused_after_it() -> None:
    lifecycle = Lifecycle()
    lifecycle.succeed(LOADED)
    with lifecycle.request() as loaded:
        lifecycle.enter(State.LAME_DUCK)
        assert loaded is LOADED
        with lifecycle.request():
            assert lifecycle.running == 2
        lifecycle.enter(State.DRAINING)
        with pytest.raises(ShuttingDown), lifecycle.request():
            pass
        assert lifecycle.running == 1
    assert lifecycle.running == 0


def test_a_request_that_fails_is_no_longer_running() -> None:
    lifecycle = Lifecycle()
    lifecycle.succeed(LOADED)
    with pytest.raises(ZeroDivisionError), lifecycle.request():
        raise ZeroDivisionError
    assert lifecycle.running == 0


def test_phases_are_recorded_when_they_end_well() -> None:
    lifecycle = Lifecycle(born=time.time() - 5)
    with lifecycle.phase(PhaseName.DOWNLOAD):
        assert "download" not in lifecycle.phases
    with pytest.raises(ProbeMismatch), lifecycle.phase(PhaseName.WARM):
        raise ProbeMismatch("no")
    lifecycle.succeed(LOADED)
    assert set(lifecycle.phases) == {"download", "ready"}
    assert 5 <= lifecycle.phases["ready"] < 60


def test_the_process_start_is_in_the_past() -> None:
    assert time.time() - 3600 < process_start() <= time.time()


def test_each_served_name_is_listed_once() -> None:
    assert Served("e66", ("66c4",)).all == ("e66", "66c4")
    assert Served("66c4", ("66c4",)).all == ("66c4",)


def test_the_termination_line_follows_the_schema_and_stays_short(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    termination.write(str(path), ProbeMismatch("Ñ" * 5000))
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") == 1
    line = json.loads(text)
    jsonschema.validate(line, schema("termination"))
    assert line["reason"] == "ProbeMismatch"
    assert len(text.encode()) <= 4096


@pytest.mark.usefixtures("own_process_settings")
def test_a_termination_log_that_cannot_be_written_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVAL_LIVE_TERMINATION_LOG", str(tmp_path / "no" / "such" / "folder"))
    code = cli.main(["convert", str(tmp_path / "nothing"), str(tmp_path / "model")])
    assert code == SourceMissing.exit_code
    assert f"SourceMissing: {tmp_path / 'nothing'} does not exist." in capsys.readouterr().err
