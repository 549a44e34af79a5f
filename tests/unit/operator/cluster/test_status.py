"""What the operator writes into a status it reads back unchanged; what it can't read it drops."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine_operator.cluster.engine_status import read_engine_status, write_engine_status
from engine_operator.cluster.source_status import (
    SourceStatus,
    counted,
    read_source_status,
    substance,
    write_source_status,
)
from engine_operator.domain.deletion import DeletionLedger, Missing
from engine_operator.domain.discovery import Skipped
from engine_operator.domain.engine import Protocol
from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.domain.observed import (
    AppliedStatus,
    Condition,
    ConditionStatus,
    EngineStatus,
    Failure,
    KnativeSettings,
    Phase,
    ServingStatus,
    TargetStatus,
    Usage,
    Wake,
)
from engine_operator.serval.events import Cursor

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(
    lambda value: value.replace(microsecond=0, tzinfo=UTC)
)
TEXTS = st.text(max_size=30)
KEYS = st.builds(
    ArtifactKey,
    st.just(EngineId("66c4a1f09d3e5b7a8c0f1e21")),
    st.integers(0, 999),
    st.text("0123456789abcdef", min_size=8, max_size=8),
)
CONDITIONS = st.builds(
    Condition,
    TEXTS.filter(bool),
    st.sampled_from(ConditionStatus),
    TEXTS,
    TEXTS,
    MOMENTS,
    st.integers(0, 9),
)
SERVING = st.builds(
    ServingStatus,
    st.integers(1, 99),
    TEXTS,
    st.sampled_from(Protocol),
    TEXTS,
    MOMENTS,
    TEXTS,
    TEXTS,
    KEYS,
    TEXTS,
)
TARGETS = st.builds(
    TargetStatus,
    st.integers(1, 99),
    KEYS,
    st.sampled_from(Phase),
    st.integers(0, 9),
    st.none() | MOMENTS,
    st.none() | TEXTS,
)
FAILURES = st.builds(Failure, st.integers(1, 99), st.sampled_from(Phase), TEXTS, TEXTS, MOMENTS)
WAKES = st.builds(
    Wake, MOMENTS, st.dictionaries(st.sampled_from(["node", "load"]), st.integers(0, 999).map(float))
)
STATUSES = st.builds(
    EngineStatus,
    observed_generation=st.integers(0, 9),
    serving=st.none() | SERVING,
    target=st.none() | TARGETS,
    last_failure=st.none() | FAILURES,
    applied=st.none() | st.builds(AppliedStatus, TEXTS, TEXTS, st.booleans()),
    cold_starts=st.lists(WAKES, max_size=3).map(tuple),
    usage=st.none()
    | st.builds(Usage, TEXTS, st.integers(0, 9**9), st.dictionaries(TEXTS, MOMENTS, max_size=2)),
    effective=st.dictionaries(TEXTS, TEXTS, max_size=3),
    conditions=st.lists(CONDITIONS, max_size=3).map(tuple),
)


@given(STATUSES)
def test_an_engines_status_survives_writing_and_reading(status: EngineStatus) -> None:
    assert read_engine_status(write_engine_status(status)) == status


def test_an_empty_status_is_an_engine_that_nothing_is_known_of() -> None:
    assert read_engine_status({}) == EngineStatus()


def test_a_part_that_cannot_be_read_is_dropped_and_the_rest_kept() -> None:
    body: dict[str, Any] = {
        "observedGeneration": 3,
        "serving": {"revision": "not a number"},
        "target": {"revision": 2, "artifactKey": "nonsense", "phase": "Serving"},
        "lastFailure": {
            "revision": 1,
            "phase": "Converting",
            "reason": "X",
            "message": "",
            "at": "2026-11-30T12:00:00Z",
        },
    }
    status = read_engine_status(body)
    assert (status.observed_generation, status.serving, status.target) == (3, None, None)
    assert status.last_failure is not None


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SOURCE = SourceStatus(
    observed_generation=2,
    conditions=(Condition("Connected", ConditionStatus.TRUE, "Connected", "", NOON, 2),),
    cursor=Cursor("b1", "e1", NOON + timedelta(milliseconds=770)),
    last_event=NOON,
    last_sweep=NOON,
    seen=3,
    servable=2,
    serving=1,
    skipped=(Skipped(EngineId("a"), "name", "NeverTrained", "why"),),
    skipped_counts={"NeverTrained": 1},
    ledger=DeletionLedger({EngineId("g"): Missing(NOON, NOON)}, (NOON,), 6),
    installation="abc-ns-ruth",
    knative=KnativeSettings(True, None, 600, "{{.Name}}"),
)


def test_a_sources_status_survives_writing_and_reading() -> None:
    assert read_source_status(write_source_status(SOURCE)) == SOURCE
    assert read_source_status({}) == SourceStatus()


def test_times_that_move_with_every_sweep_are_no_substance_and_everything_else_is() -> None:
    from dataclasses import replace

    later = NOON + timedelta(minutes=3)
    ledger = replace(SOURCE.ledger, missing={EngineId("g"): Missing(NOON, later)}, recent=())
    moved = replace(SOURCE, last_sweep=later, last_event=later, ledger=ledger)
    assert substance(moved) == substance(SOURCE)
    for other in (
        replace(SOURCE, seen=4),
        replace(SOURCE, cursor=None),
        replace(SOURCE, ledger=DeletionLedger({})),
        replace(SOURCE, conditions=()),
    ):
        assert substance(other) != substance(SOURCE)


def test_skipped_engines_are_counted_by_reason() -> None:
    skipped = [Skipped(EngineId(str(n)), "", "A" if n < 3 else "B", "") for n in range(5)]
    assert counted(tuple(skipped)) == {"A": 3, "B": 2}
