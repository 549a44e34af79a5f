"""One source's two loops: the sweep, and the poll that wakes it. The first sweep comes before the first poll."""

import asyncio
import logging
import time
from dataclasses import dataclass

from engine_operator.errors import LeaseLost, OperatorError
from engine_operator.health import Pulse
from engine_operator.loops.inbox import SourceKey
from engine_operator.loops.orphans import Orphans
from engine_operator.loops.poll import Poller
from engine_operator.loops.sources import Sources
from engine_operator.loops.sweep import Sweeper

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepRhythm:
    """Waits, in seconds."""

    every: float
    """Between two sweeps that nothing woke."""
    collect: float
    """Between two searches for orphaned artifacts."""
    first_retry: float
    """After a sweep that failed; doubles up to `every`."""


class SourceLoop:
    """Runs until cancelled, or until its source is gone."""

    def __init__(
        self, key: SourceKey, rhythm: SweepRhythm, pulse: Pulse, sources: Sources, orphans: Orphans
    ) -> None:
        self._key = key
        self._rhythm = rhythm
        self._pulse = pulse
        self._sources = sources
        self._orphans = orphans
        self._wakes: list[float] = []
        self._woken = asyncio.Event()
        self._orphans_due = time.monotonic()
        self._failures = 0

    def wake(self, wait: float) -> None:
        """Sweep after `wait` seconds at the latest."""
        self._wakes.append(time.monotonic() + wait)
        self._woken.set()

    async def run(self, sweeper: Sweeper, poller: Poller) -> None:
        """Sweep, then poll and sweep."""
        poll: asyncio.Task[None] | None = None
        beat = f"sweep {self._key.namespace}/{self._key.name}"
        try:
            while True:
                self._pulse.beat(beat)
                self._wakes = [at for at in self._wakes if at > time.monotonic()]
                if not await self._sweep(sweeper):
                    return
                if poll is None and self._failures == 0:
                    poll = asyncio.create_task(poller.run(), name=f"poll {self._key.name}")
                await self._wait()
        finally:
            self._pulse.forget(beat)
            if poll is not None:
                poll.cancel()
                await asyncio.gather(poll, return_exceptions=True)

    async def _sweep(self, sweeper: Sweeper) -> bool:
        try:
            alive = await sweeper.sweep()
            if alive:
                await self._look_for_orphans(sweeper.deleted)
        except LeaseLost:
            raise
        except OperatorError as error:
            self._failures += 1
            log.warning("%s/%s: the sweep failed: %s", self._key.namespace, self._key.name, error)
            return True
        self._failures = 0
        return alive

    async def _look_for_orphans(self, deleted: bool) -> None:
        """In turns, and after a deletion in each sweep until nothing is left."""
        context = self._sources.context(self._key)
        if context is None or not (deleted or time.monotonic() >= self._orphans_due):
            return
        left = await self._orphans.collect(context)
        self._orphans_due = time.monotonic() + (0.0 if left or deleted else self._rhythm.collect)

    async def _wait(self) -> None:
        pause = self._rhythm.every
        if self._failures:
            pause = min(pause, self._rhythm.first_retry * 2 ** min(self._failures - 1, 8))
        until = time.monotonic() + pause
        while (wait := min([until, *self._wakes]) - time.monotonic()) > 0:
            self._woken.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                return
