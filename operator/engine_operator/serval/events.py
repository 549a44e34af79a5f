"""The cursor over finished builds: pure rules, no I/O.

Serval's `next-finished` loses events in seven known ways (an unknown, unfinished or deleted cursor silently becomes
"now"; of two builds that end nearly together the earlier can be skipped; deletions send nothing). So an event is only
a hint that wakes the sweep, and everything here has one aim: never to hold a cursor that means "now" without knowing.

Refuses to poll without a cursor: whatever finished between two such calls would be lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from engine_operator.serval.dto import Build


@dataclass(frozen=True)
class Cursor:
    """The build that the next poll starts after: the last one that was handled."""

    build_id: str
    engine_id: str
    date_finished: datetime


@dataclass(frozen=True)
class PollPolicy:
    """Waits of the poll loop, in seconds."""

    prompt: float = 0.1
    """From an event to the first sweep: the build and its engine's new revision are committed together."""

    settle: float = 3.0
    """From an event to a second sweep: Serval may commit a nearly simultaneous build a little later."""

    search: float = 20.0
    """Between two looks for a first cursor, while the account has no finished build yet."""

    first_retry: float = 2.0
    """After the first failure; doubles with each further one."""

    longest_retry: float = 8.0
    """Upper bound of the doubling: how late we notice at most that Serval is back."""

    refused_retry: float = 60.0
    """After 401 or 403: only a person can help, and a flood of refused calls looks like an attack."""

    trust: float = 30.0
    """How long a cursor counts as existing without being looked up: less than one poll's 40 s, so that each
    empty poll is followed by a look-up."""

    lookback: timedelta = timedelta(days=30)
    """How far back a first cursor is searched. Older builds are found by the sweep."""


@dataclass(frozen=True)
class PollState:
    """Where one account's poll stands."""

    cursor: Cursor | None = None
    proved_at: float | None = None
    """Clock reading at which the cursor's build was last known to exist; None after a start."""

    failures: int = 0
    """Failures in a row."""


class Step(Enum):
    """What to do next with an account."""

    SEARCH = "list builds and take the latest finished one as cursor"
    VERIFY = "look the cursor's build up"
    POLL = "wait for the next finished build"


class Failure(Enum):
    """How a call ended when it was no answer."""

    UNREACHABLE = "nobody, or a proxy, answered"
    SERVER_ERROR = "500: the cursor is suspect"
    REFUSED = "401 or 403"


@dataclass(frozen=True)
class Directive:
    """What follows from one outcome. All waits in seconds."""

    state: PollState
    wait: float = 0.0
    sweep_in: float | None = None
    """Until a sweep; None wakes nothing."""
    again_in: float | None = None
    """Until another one."""


def next_step(state: PollState, now: float, policy: PollPolicy) -> Step:
    """A cursor is looked up whenever it is older than one poll: its build may have been deleted with its engine."""
    if state.cursor is None:
        return Step.SEARCH
    if state.proved_at is None or now - state.proved_at > policy.trust:
        return Step.VERIFY
    return Step.POLL


def latest_finished(builds: Iterable[Build]) -> Cursor | None:
    """The finished build with the greatest (dateFinished, id), Serval's own order; None if none has finished."""
    finished = [cursor for build in builds if (cursor := cursor_of(build)) is not None]
    return max(finished, key=lambda cursor: (cursor.date_finished, cursor.build_id), default=None)


def cursor_of(build: Build) -> Cursor | None:
    """A cursor that Serval will honour, or None: a build that has not finished means "now" to it."""
    if not build.state.terminal or build.date_finished is None:
        return None
    return Cursor(build.id, build.engine.id, build.date_finished)


def after_search(state: PollState, found: Cursor | None, now: float, policy: PollPolicy) -> Directive:
    """A new cursor always wakes the sweep: what finished before it was never announced."""
    if found is None:
        return Directive(PollState(), wait=policy.search)
    return Directive(PollState(found, proved_at=now), sweep_in=0.0)


def after_verify(state: PollState, exists: bool, now: float, policy: PollPolicy) -> Directive:
    """A cursor whose build is gone has meant "now" for an unknown time: reconcile, and search a new one."""
    if exists:
        return Directive(replace(state, proved_at=now, failures=0))
    return Directive(PollState(), sweep_in=0.0)


def after_poll(state: PollState, build: Build | None, now: float, policy: PollPolicy) -> Directive:
    """An event moves the cursor and wakes the sweep; an empty poll (None) repeats with the same cursor."""
    if build is None:
        return Directive(replace(state, failures=0))
    moved = cursor_of(build)
    if moved is None or (state.cursor and moved.build_id == state.cursor.build_id):
        # Not finished, or the same again: following it would spin or mean "now".
        return Directive(PollState(), wait=policy.first_retry, sweep_in=0.0)
    return Directive(PollState(moved, proved_at=now), sweep_in=policy.prompt, again_in=policy.settle)


def after_failure(state: PollState, failure: Failure, policy: PollPolicy, jitter: float) -> Directive:
    """Same cursor and growing waits; only a 500 drops the cursor. `jitter` in 0..1 spreads many operators."""
    failures = state.failures + 1
    if failure is Failure.REFUSED:
        return Directive(replace(state, failures=failures), wait=policy.refused_retry * (1 + 0.2 * jitter))
    wait = min(policy.first_retry * 2 ** min(failures - 1, 16), policy.longest_retry) * (0.8 + 0.4 * jitter)
    if failure is Failure.SERVER_ERROR:
        return Directive(PollState(failures=failures), wait=wait, sweep_in=0.0)
    # Looked up first when it is back: a short question shows that, a long poll would not for 40 s.
    return Directive(replace(state, proved_at=None, failures=failures), wait=wait)
