"""What an engine cost: pods come, go, and cross the end of a month."""

from datetime import UTC, datetime, timedelta

from engine_operator.domain.observed import PodState, Usage
from engine_operator.domain.usage import accounted, changed

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def pod(name: str, created: datetime = NOON) -> PodState:
    return PodState(name=name, knative_revision="r", created=created, ready=True)


def test_an_engine_that_never_ran_cost_nothing_and_says_nothing() -> None:
    assert accounted(None, [], NOON) is None
    assert not changed(None, None)


def test_a_pod_is_counted_from_its_start_to_the_look_that_misses_it() -> None:
    begun = accounted(None, [pod("a")], NOON + timedelta(seconds=5))
    assert begun == Usage("2026-11", 0, {"a": NOON})
    ended = accounted(begun, [], NOON + timedelta(minutes=10))
    assert ended == Usage("2026-11", 600, {})
    again = accounted(ended, [pod("b", NOON + timedelta(hours=1))], NOON + timedelta(hours=1))
    assert accounted(again, [], NOON + timedelta(hours=1, seconds=30)) == Usage("2026-11", 630, {})


def test_a_pod_that_runs_on_is_no_reason_to_write_and_one_that_comes_or_goes_is() -> None:
    begun = accounted(None, [pod("a")], NOON)
    later = accounted(begun, [pod("a")], NOON + timedelta(hours=1))
    assert not changed(begun, later)
    assert changed(begun, accounted(later, [], NOON + timedelta(hours=2)))
    assert changed(begun, accounted(later, [pod("a"), pod("b")], NOON + timedelta(hours=2)))


def test_a_new_month_begins_with_what_ran_since_its_first_second() -> None:
    begun = Usage("2026-11", 5000, {"a": NOON})
    second = datetime(2026, 12, 1, 0, 0, 50, tzinfo=UTC)
    assert accounted(begun, [], second) == Usage("2026-12", 50, {})
