"""Everything the stand-in remembers, and the stream of changes that long polls follow.

One lock, held shortly; a commit is a transaction whose build writes reach the followers as one batch, as MongoDB's
change streams deliver them. No rules live here (see `operations`), only storage and waking.
"""

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from tests.support.serval.clock import Clock, ObjectIds
from tests.support.serval.domain import Build, Engine, JobState
from tests.support.serval.errors import LongPollTimeout
from tests.support.serval.settings import Settings


@dataclass(frozen=True)
class Batch:
    """Build writes that one look at the change stream delivers together, in order."""

    saved: tuple[Build, ...] = ()
    dropped: tuple[Build, ...] = ()


class World:
    """The database of one stand-in. All reads and writes are safe from any thread."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.random = random.Random(settings.seed)
        self.ids = ObjectIds(clock, random.Random(settings.seed))
        self.lock = threading.RLock()
        self.engines: dict[str, Engine] = {}
        self.builds: dict[str, Build] = {}
        self._batches: list[Batch] = []
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def commit(
        self, builds: Iterable[Build] = (), engines: Iterable[Engine] = (), dropped: Iterable[Build] = ()
    ) -> None:
        """Write all of it at once and wake every follower."""
        batch = Batch(tuple(builds), tuple(dropped))
        with self.lock:
            self.engines.update({engine.id: engine for engine in engines})
            self.builds.update({build.id: build for build in batch.saved})
            for build in batch.dropped:
                self.builds.pop(build.id, None)
            self._batches.append(batch)
            waiters = list(self._waiters)
        for loop, event in waiters:
            with contextlib.suppress(RuntimeError):  # the loop ended while its follower was still listed
                loop.call_soon_threadsafe(event.set)

    def remove_engine(self, engine: Engine) -> None:
        """The engine and its builds go in one transaction; no build event follows."""
        with self.lock:
            self.engines.pop(engine.id, None)
            self.commit(dropped=self.builds_of(engine.id))

    def builds_of(self, engine_id: str) -> list[Build]:
        with self.lock:
            return [build for build in self.builds.values() if build.engine_id == engine_id]

    def current_build(self, engine_id: str) -> Build | None:
        """The build that is Pending or Active, if any; there is at most one."""
        running = [build for build in self.builds_of(engine_id) if not build.state.terminal]
        return running[0] if running else None

    def is_building(self, engine_id: str) -> bool:
        """False for a pending build, as in Serval."""
        return any(build.state is JobState.ACTIVE for build in self.builds_of(engine_id))

    @property
    def position(self) -> int:
        """The end of the change stream; batches after it are the future of whoever read it under the lock."""
        with self.lock:
            return len(self._batches)

    @property
    def followers(self) -> int:
        """How many long polls are waiting right now."""
        with self.lock:
            return len(self._waiters)

    async def batches(self, position: int, timeout: float) -> AsyncGenerator[Batch, None]:
        """Every batch after the position, as they come. Raises LongPollTimeout after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        end = loop.time() + timeout
        with self.lock:
            self._waiters.add((loop, event))
        try:
            while True:
                event.clear()
                with self.lock:
                    fresh = self._batches[position:]
                position += len(fresh)
                for batch in fresh:
                    yield batch
                try:
                    await asyncio.wait_for(event.wait(), end - loop.time())
                except TimeoutError:
                    raise LongPollTimeout("nothing happened") from None
        finally:
            with self.lock:
                self._waiters.discard((loop, event))
