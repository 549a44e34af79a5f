"""The cursor's rules, as stories: outcomes go in, what follows comes out."""

from datetime import UTC, datetime, timedelta

import pytest

from engine_operator.serval.dto import Build, BuildState, EngineRef
from engine_operator.serval.events import (
    Cursor,
    Failure,
    PollPolicy,
    PollState,
    Step,
    after_failure,
    after_poll,
    after_search,
    after_verify,
    cursor_of,
    latest_finished,
    next_step,
)
from tests.support.cases import case

POLICY = PollPolicy()
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
CURSOR = Cursor("b1", "e1", NOON)


def build(id: str, minutes: int | None = 0, state: BuildState = BuildState.COMPLETED) -> Build:
    """A build that finished so many minutes after noon; None: it has not."""
    finished = None if minutes is None else NOON + timedelta(minutes=minutes)
    return Build(id=id, engine=EngineRef(id=f"engine-of-{id}"), state=state, date_finished=finished)


def always_poll(state: PollState, now: float, policy: PollPolicy) -> Step:
    return Step.POLL


@case("B2", breaks="engine_operator.serval.events:next_step", naive=always_poll)
def test_b2_without_a_cursor_nothing_is_polled() -> None:
    assert next_step(PollState(), now=0.0, policy=POLICY) is Step.SEARCH


@case("B1", breaks="engine_operator.serval.events:next_step", naive=always_poll)
@pytest.mark.parametrize("proved_at", [None, 60.0])
def test_b1_a_cursor_that_status_kept_or_that_waited_a_whole_poll_is_looked_up(
    proved_at: float | None,
) -> None:
    assert next_step(PollState(CURSOR, proved_at), now=100.0, policy=POLICY) is Step.VERIFY


def trusts_a_deleted_cursor(state: PollState, exists: bool, now: float, policy: PollPolicy) -> object:
    return after_poll(state, None, now, policy)


@case("B1", breaks="engine_operator.serval.events:after_verify", naive=trusts_a_deleted_cursor)
def test_b1_a_deleted_cursor_is_dropped_and_everything_compared_at_once() -> None:
    directive = after_verify(PollState(CURSOR), exists=False, now=100.0, policy=POLICY)
    assert directive.state.cursor is None
    assert directive.sweep_in == 0.0


def test_a_cursor_that_was_just_proved_is_polled_with() -> None:
    proved = after_verify(PollState(CURSOR), exists=True, now=100.0, policy=POLICY)
    assert proved.sweep_in is None
    assert next_step(proved.state, now=100.0, policy=POLICY) is Step.POLL


def test_the_first_cursor_is_the_latest_finished_build_by_servals_own_order() -> None:
    builds = [build("b3", 1), build("b9", None, BuildState.ACTIVE), build("b5", 1), build("b7", 0)]
    assert latest_finished(builds) == Cursor("b5", "engine-of-b5", NOON + timedelta(minutes=1))


def test_an_account_without_a_finished_build_is_searched_again_later() -> None:
    directive = after_search(PollState(), None, now=0.0, policy=POLICY)
    assert (directive.state.cursor, directive.wait, directive.sweep_in) == (None, POLICY.search, None)


def test_a_new_cursor_wakes_the_sweep_since_what_was_before_it_was_never_announced() -> None:
    directive = after_search(PollState(), CURSOR, now=5.0, policy=POLICY)
    assert directive.sweep_in == 0.0
    assert next_step(directive.state, now=5.0, policy=POLICY) is Step.POLL


@pytest.mark.parametrize("state", [BuildState.COMPLETED, BuildState.CANCELED, BuildState.FAULTED])
def test_an_event_moves_the_cursor_and_wakes_the_sweep_at_once_and_again_a_little_later(
    state: BuildState,
) -> None:
    directive = after_poll(PollState(CURSOR, 0.0), build("b2", 1, state), now=9.0, policy=POLICY)
    assert directive.state.cursor == Cursor("b2", "engine-of-b2", NOON + timedelta(minutes=1))
    assert (directive.sweep_in, directive.again_in) == (POLICY.prompt, POLICY.settle)


def test_an_empty_poll_repeats_with_the_same_cursor() -> None:
    directive = after_poll(PollState(CURSOR, 0.0, failures=2), None, now=40.0, policy=POLICY)
    assert directive.state.cursor == CURSOR
    assert (directive.wait, directive.sweep_in, directive.state.failures) == (0.0, None, 0)


@pytest.mark.parametrize("odd", [build("b1", 0), build("b2", None, BuildState.ACTIVE)])
def test_an_event_that_is_no_progress_never_spins_and_drops_the_cursor(odd: Build) -> None:
    directive = after_poll(PollState(CURSOR, 0.0), odd, now=1.0, policy=POLICY)
    assert directive.state.cursor is None
    assert directive.wait > 0
    assert directive.sweep_in == 0.0


def test_an_unfinished_build_is_no_cursor_since_it_would_mean_now() -> None:
    assert cursor_of(build("b1", None, BuildState.PENDING)) is None
    assert cursor_of(build("b1", None, BuildState.COMPLETED)) is None


def test_a_cut_connection_keeps_the_cursor_waits_longer_each_time_and_looks_it_up_first() -> None:
    state, waits = PollState(CURSOR, 0.0), []
    for _ in range(8):
        directive = after_failure(state, Failure.UNREACHABLE, POLICY, jitter=0.5)
        state = directive.state
        waits.append(directive.wait)
    assert state.cursor == CURSOR
    assert waits[:3] == [2.0, 4.0, 8.0]
    assert max(waits) <= POLICY.longest_retry
    assert next_step(state, now=0.0, policy=POLICY) is Step.VERIFY


def test_a_500_makes_the_cursor_suspect() -> None:
    directive = after_failure(PollState(CURSOR, 0.0), Failure.SERVER_ERROR, POLICY, jitter=0.5)
    assert directive.state.cursor is None
    assert directive.sweep_in == 0.0


def test_refused_credentials_are_tried_slowly_and_cost_no_cursor() -> None:
    directive = after_failure(PollState(CURSOR, 0.0), Failure.REFUSED, POLICY, jitter=0.0)
    assert directive.state.cursor == CURSOR
    assert directive.wait >= POLICY.refused_retry


def test_jitter_spreads_operators() -> None:
    early, late = (after_failure(PollState(CURSOR), Failure.UNREACHABLE, POLICY, j).wait for j in (0.0, 1.0))
    assert early < late
