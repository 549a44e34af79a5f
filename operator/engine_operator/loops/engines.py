"""When to look at which engine: when something touched it, when its time has come, when a sweep saw something new.

Looks at one engine never overlap; looks at several run side by side, since a store or an API that is slow for one must
not hold up the others. Nothing is kept here that a restart could not find again: it only saves work.
"""

import asyncio
import heapq
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from engine_operator import metrics
from engine_operator.cluster.reader import EngineObjects, Packed
from engine_operator.domain.observed import Phase
from engine_operator.errors import LeaseLost, OperatorError
from engine_operator.loops.board import Board
from engine_operator.loops.inbox import EngineKey, Inbox, Mark
from engine_operator.loops.look import Looked, Looker

log = logging.getLogger(__name__)

AT_WORK = frozenset({Phase.CONVERTING, Phase.ROLLING_OUT})

NEXT = 4
"""Engines of each queue that are looked at as soon as a place may be free."""

STALE = 8
"""Entries of the heap for each that still holds, before it is made anew."""


@dataclass(frozen=True)
class Rhythm:
    """Waits of this loop, in seconds."""

    debounce: float
    """From a touch to the look: what one change touches comes together."""
    follow: float
    """Between two looks at an engine at work."""
    collect: float
    """Between two listings of an engine's artifacts."""
    trust: float
    """How long the artifact of an engine at rest is believed to be there still."""
    longest_retry: float
    """Bound of the growing wait after failures that say nothing about the engine."""
    turn: float
    """Between the looks at two engines that wait for the same kind of place, beyond the next few."""


@dataclass
class _Memory:
    """What is remembered of one engine."""

    phase: Phase | None = None
    settled: tuple[object, ...] | None = None
    listed_at: float | None = None
    revision: int | None = None
    failures: int = 0


class EngineLoop:
    """Schedules the looks of one process."""

    def __init__(
        self,
        inbox: Inbox,
        looker: Looker,
        board: Board,
        rhythm: Rhythm,
        parallel: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inbox = inbox
        self._looker = looker
        self._board = board
        self._rhythm = rhythm
        self._parallel = parallel
        self._clock = clock
        self._due: dict[EngineKey, float] = {}
        self._order: list[tuple[float, str, str, EngineKey]] = []
        """A heap of what is due, with entries that no longer hold: each wake-up would have to read all of it otherwise,
        and a thousand engines wake this loop a thousand times as often as one."""
        self._memory: dict[EngineKey, _Memory] = {}
        self._running: dict[EngineKey, asyncio.Task[None]] = {}
        self._known: dict[EngineKey, Packed] = {}
        self._planned: set[EngineKey] = set()
        self._held: dict[EngineKey, None] = {}
        """Engines that serve and wait to be corrected, in the order in which they were seen."""
        metrics.PLANNED.set(0)

    def schedule(self, key: EngineKey, wait: float = 0.0) -> None:
        """Look at an engine after `wait` seconds at the latest."""
        at = self._clock() + wait
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            self._enqueue(key)
            self._inbox.nudge()

    def _enqueue(self, key: EngineKey) -> None:
        heapq.heappush(self._order, (self._due[key], key.name, key.namespace, key))
        if len(self._order) > STALE * (len(self._due) + STALE):
            self._order = [(at, one.name, one.namespace, one) for one, at in self._due.items()]
            heapq.heapify(self._order)

    def offer(self, key: EngineKey, objects: EngineObjects) -> None:
        """Look at an engine that a survey has just read: if all is well, nothing has to be read again."""
        self._known[key] = Packed.of(objects)
        self.schedule(key)

    def saw(self, key: EngineKey, mark: Mark) -> bool:
        """Whether the last look, or the one to come, saw an object as it is now: our own start, or our own write."""
        memory, known = self._memory.get(key), self._known.get(key)
        if known is not None:
            return mark in known.marks
        seen = memory.settled[0] if memory and memory.settled else ()
        return isinstance(seen, tuple) and mark in seen

    def settled_with(self, key: EngineKey) -> tuple[object, ...] | None:
        """The facts with which the last look found nothing to do."""
        memory = self._memory.get(key)
        return memory.settled if memory else None

    def forget(self, namespace: str, alive: set[str]) -> None:
        """Drop engines of a namespace that are no more."""
        for key in [key for key in self._memory if key.namespace == namespace and key.name not in alive]:
            self._drop(key)

    async def run(self) -> None:
        """Until cancelled. Raises LeaseLost."""
        try:
            while True:
                for key in await self._inbox.wait_engines(self._until_next()):
                    self._known.pop(key, None)
                    self.schedule(key, self._rhythm.debounce)
                self._start_due()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _until_next(self) -> float | None:
        first = self._first()
        if first is None or len(self._running) >= self._parallel:
            return None
        return max(0.0, self._due[first] - self._clock())

    def _first(self) -> EngineKey | None:
        """The engine that is due next, those that are being looked at aside."""
        while self._order:
            at, *_, key = self._order[0]
            if self._due.get(key) == at and key not in self._running:
                return key
            heapq.heappop(self._order)
        return None

    def _start_due(self) -> None:
        now = self._clock()
        while len(self._running) < self._parallel:
            key = self._first()
            if key is None or self._due[key] > now:
                return
            del self._due[key]
            task = asyncio.create_task(self._look(key), name=f"look {key.namespace}/{key.name}")
            self._running[key] = task
            task.add_done_callback(partial(self._done, key))

    def _done(self, key: EngineKey, task: asyncio.Task[None]) -> None:
        del self._running[key]
        if key in self._due:
            self._enqueue(key)
        self._inbox.nudge()
        if not task.cancelled() and (error := task.exception()) is not None:
            # A defect at one engine must not stop the others, nor go unseen.
            log.error("looking at %s/%s failed", key.namespace, key.name, exc_info=error)
            self._again(key, self._memory.setdefault(key, _Memory()))

    async def _look(self, key: EngineKey) -> None:
        memory = self._memory.setdefault(key, _Memory())
        memory.settled = None
        collect, known = self._collect_due(key, memory), self._known.pop(key, None)
        try:
            looked = await self._looker.glance(key, known.objects()) if known and not collect else None
            looked = looked or await self._looker.look(key, collect)
        except LeaseLost:
            return  # The leader ends this loop; whoever leads next looks again.
        except OperatorError as error:
            log.info("%s/%s could not be looked at: %s", key.namespace, key.name, error)
            self._again(key, memory)
            return
        if looked is None:
            self._drop(key)
            return
        if collect:
            memory.listed_at = self._clock()
        self._planned.add(key)
        metrics.PLANNED.set(len(self._planned))
        self._remember(key, memory, looked)

    def _remember(self, key: EngineKey, memory: _Memory, looked: Looked) -> None:
        if looked.passing is not None:
            self._again(key, memory)
            return
        memory.failures = 0
        if looked.held:
            self._held.setdefault(key)
        else:
            self._held.pop(key, None)
        freed = self._board.take_freed()
        if freed or (memory.phase in AT_WORK and looked.phase not in AT_WORK):
            self._give_turns()
        if looked.revision != memory.revision:
            memory.revision, memory.listed_at = looked.revision, None
        memory.phase, memory.settled = looked.phase, looked.fingerprint
        self._board.enters(key, Phase.SERVING if looked.aside else looked.phase)
        self.schedule(key, self._wait(memory, looked))

    def _give_turns(self) -> None:
        """Look at those who wait for a place: at the next few at once, and at the others in case those can't take it.

        All at once would be a look at everybody for each place that becomes free, and those at work would wait for it.
        """
        for queue in (*self._board.waiting(), list(self._held)):
            for number, key in enumerate(queue):
                self.schedule(key, max(0, number - NEXT + 1) * self._rhythm.turn)

    def _wait(self, memory: _Memory, looked: Looked) -> float:
        wait = self._wait_for_work(memory, looked)
        if looked.changes is None:
            return wait
        return min(wait, max((looked.changes - datetime.now(UTC)).total_seconds(), self._rhythm.follow))

    def _wait_for_work(self, memory: _Memory, looked: Looked) -> float:
        if looked.acted or looked.moving or looked.phase in AT_WORK:
            return self._rhythm.follow
        if looked.next_retry is not None:
            wait = (looked.next_retry - datetime.now(UTC)).total_seconds()
            return max(wait, self._rhythm.follow)
        since = self._clock() - memory.listed_at if memory.listed_at is not None else 0.0
        rest = self._rhythm.collect - since
        if looked.revision is not None:
            # Nothing tells of an artifact that vanishes. Spread, since all were looked at together after a start.
            rest = min(rest, self._rhythm.trust * random.uniform(1.0, 1.2))
        return max(rest, self._rhythm.follow)

    def _collect_due(self, key: EngineKey, memory: _Memory) -> bool:
        """Garbage is looked for some time after a start, then in turns, and soon after another revision serves."""
        if memory.phase is not Phase.SERVING:
            return False
        if memory.listed_at is None:
            return True
        return self._clock() - memory.listed_at >= self._rhythm.collect

    def _again(self, key: EngineKey, memory: _Memory) -> None:
        memory.failures += 1
        wait = min(self._rhythm.follow * 2 ** min(memory.failures - 1, 8), self._rhythm.longest_retry)
        self.schedule(key, wait * random.uniform(0.8, 1.2))

    def _drop(self, key: EngineKey) -> None:
        self._memory.pop(key, None)
        self._known.pop(key, None)
        self._planned.discard(key)
        self._held.pop(key, None)
        self._board.leaves(key)
