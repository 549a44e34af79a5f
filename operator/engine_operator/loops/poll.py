"""The long poll of one source: performs the steps of `serval.events` and wakes the sweep.

Says "reachable" and "not reachable" once per change, however often the poll fails in between.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from engine_operator import metrics
from engine_operator.errors import (
    ClusterError,
    ServalDeclines,
    ServalError,
    ServalForbids,
    ServalLacks,
    ServalMisbehaved,
    ServalRefusedCredentials,
)
from engine_operator.loops.inbox import SourceKey
from engine_operator.serval.client import ServalClient
from engine_operator.serval.dto import Build, BuildState
from engine_operator.serval.events import (
    Cursor,
    Directive,
    Failure,
    PollPolicy,
    PollState,
    Step,
    after_failure,
    after_poll,
    after_search,
    after_verify,
    latest_finished,
    next_step,
)

log = logging.getLogger(__name__)

Connect = Callable[[], Awaitable[ServalClient]]
"""Gives a client with the credentials as they are now. Raises ServalRefusedCredentials, ClusterError."""

Finished = Callable[[str, datetime], None]
"""Takes Serval's id of an engine, and when a build of it completed."""


def _tell_nobody(_: str, __: datetime) -> None:
    """For those who only ask where the poll stands."""


class Poller:
    """Follows the finished builds of one source. `wake` is called with seconds until the sweep that is due."""

    def __init__(
        self,
        key: SourceKey,
        connect: Connect,
        policy: PollPolicy,
        wake: Callable[[float], None],
        finished: Finished = _tell_nobody,
    ) -> None:
        self._key = key
        self._connect = connect
        self._policy = policy
        self._wake = wake
        self._finished = finished
        self._state = PollState()
        self._reachable: bool | None = None
        self._announced: set[str] = set()
        self._not_completed: list[Build] = []
        self.last_event: datetime | None = None

    @property
    def cursor(self) -> Cursor | None:
        """Where the poll stands, to be kept in status."""
        return self._state.cursor

    def start_from(self, cursor: Cursor | None) -> None:
        """Go on from a cursor that status kept; it is looked up before it is trusted."""
        self._state = PollState(cursor)

    def announced(self) -> set[str]:
        """Engines of events since the last call."""
        taken, self._announced = self._announced, set()
        return taken

    def not_completed(self) -> list[Build]:
        """Builds that ended without a model since the last call."""
        taken, self._not_completed = self._not_completed, []
        return taken

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            directive = await self.step()
            self._state = directive.state
            for wait in (directive.sweep_in, directive.again_in):
                if wait is not None:
                    self._wake(wait)
            await asyncio.sleep(directive.wait)

    async def step(self) -> Directive:
        """One step, and what follows from it."""
        try:
            directive = await self._attempt(await self._connect())
        except (ServalError, ClusterError) as error:
            return self._failed(error)
        recovered = self._state.failures > 0
        self._tell(True, "")
        if recovered and directive.sweep_in is None:
            return Directive(directive.state, directive.wait, sweep_in=0.0)
        return directive

    async def _attempt(self, serval: ServalClient) -> Directive:
        state, policy = self._state, self._policy
        match next_step(state, time.monotonic(), policy):
            case Step.SEARCH:
                builds = await serval.builds(datetime.now(UTC) - policy.lookback)
                return after_search(state, latest_finished(builds), time.monotonic(), policy)
            case Step.VERIFY:
                assert state.cursor is not None, "only a cursor is looked up"
                exists = await self._exists(serval, state.cursor)
                return after_verify(state, exists, time.monotonic(), policy)
            case Step.POLL:
                assert state.cursor is not None, "polls run only with a cursor"
                build = await serval.next_finished(state.cursor.build_id)
                if build is not None:
                    self._announced.add(build.engine.id)
                    self.last_event = datetime.now(UTC)
                    if build.state in (BuildState.FAULTED, BuildState.CANCELED):
                        self._not_completed.append(build)
                    elif build.date_finished is not None:
                        self._finished(build.engine.id, build.date_finished)
                    metrics.EVENTS.labels(*self._labels, build.state.value).inc()
                    log.info("a build finished: %s of engine %s", build.state.value, build.engine.id)
                return after_poll(state, build, time.monotonic(), policy)

    @staticmethod
    async def _exists(serval: ServalClient, cursor: Cursor) -> bool:
        try:
            found = await serval.build(cursor.engine_id, cursor.build_id)
        except (ServalLacks, ServalForbids):
            return False
        return found.state.terminal

    def _failed(self, error: ServalError | ClusterError) -> Directive:
        refused = isinstance(error, (ServalRefusedCredentials, ServalForbids, ServalDeclines, ServalLacks))
        if refused:
            kind = Failure.REFUSED
        else:
            kind = Failure.SERVER_ERROR if isinstance(error, ServalMisbehaved) else Failure.UNREACHABLE
        metrics.POLL_FAILURES.labels(*self._labels, kind.name.lower()).inc()
        self._tell(False, str(error))
        return after_failure(self._state, kind, self._policy, random.random())

    def _tell(self, reachable: bool, why: str) -> None:
        metrics.SERVAL_REACHABLE.labels(*self._labels).set(reachable)
        if reachable is self._reachable:
            return
        if not reachable:
            log.warning("%s/%s: Serval can't be polled: %s", *self._labels, why)
        elif self._reachable is not None:
            log.info("%s/%s: Serval answers again", *self._labels)
        self._reachable = reachable

    @property
    def _labels(self) -> tuple[str, str]:
        return self._key.namespace, self._key.name
