"""A caller that never stops, and counts what a person behind it would call a failure.

At least eight connections, half of them kept alive and half new for each call, at least 20 calls a second, 60 s of
patience. A call fails if it is not answered with 200, if the answer is not what the revision that it names says, or
if it names a revision older than one already seen on that connection.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.live.calls import Answer, CallFailed, Connection, Endpoint, connect
from tests.support.live.names import Names
from tests.support.waiting import eventually

MINIMUM_CALLS = 1_000
"""Fewer calls make a run invalid as evidence of "no failed call"."""


@dataclass
class Calls:
    """What one run of the caller saw. Times in seconds."""

    total: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    by_revision: dict[int, int] = field(default_factory=dict)
    first_seen: dict[int, float] = field(default_factory=dict)
    last_seen: dict[int, float] = field(default_factory=dict)
    connections_of: dict[int, set[int]] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    """Look-ups of the host, one for each new connection; repeated ones are told beside the failed calls."""

    def saw(self, answer: Answer, connection: int, seconds: float) -> None:
        """Record one good answer."""
        self.connections_of.setdefault(answer.revision, set()).add(connection)
        self.by_revision[answer.revision] = self.by_revision.get(answer.revision, 0) + 1
        now = time.time()
        self.first_seen.setdefault(answer.revision, now)
        self.last_seen[answer.revision] = now
        self.longest = max(self.longest, seconds)


References = Mapping[int, Mapping[str, str]]
"""revision -> sentence -> the translation that this revision gives, from a source other than the served answers."""


class Caller:
    """Calls an engine until told to stop."""

    def __init__(self, endpoint: Endpoint, sentences: Sequence[str], references: References) -> None:
        self.endpoint = endpoint
        self.sentences = sentences
        self.references = references
        self.calls = Calls()
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, connections: int = 8, calls_per_second: float = 24.0, patience: float = 60.0) -> None:
        """Begin calling in the background."""
        pause = connections / calls_per_second
        self._tasks = [asyncio.create_task(self._connection(n, pause, patience)) for n in range(connections)]

    async def until_all_saw(self, revision: int, timeout: float = 60.0) -> None:
        """Wait until every connection was answered by this revision. Raises AssertionError."""

        def all_saw() -> bool:
            return len(self.calls.connections_of.get(revision, ())) == len(self._tasks)

        await eventually(all_saw, timeout=timeout)

    async def stop(self) -> Calls:
        """Finish the calls under way and return what was seen."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        return self.calls

    async def _connection(self, number: int, pause: float, patience: float) -> None:
        keep_alive = number % 2 == 0
        newest, turn = 0, number
        connection = connect(self.endpoint, patience, self.calls.names)
        while not self._stop.is_set():
            if not keep_alive:
                await connection.__aexit__(None, None, None)
                connection = connect(self.endpoint, patience, self.calls.names)
            started = time.monotonic()
            newest = await self._call(connection, (number, turn), newest)
            turn += 1
            rest = pause - (time.monotonic() - started)
            if rest > 0:
                await asyncio.sleep(rest)
        await connection.__aexit__(None, None, None)

    async def _call(self, connection: Connection, place: tuple[int, int], newest: int) -> int:
        number, turn = place
        text = self.sentences[turn % len(self.sentences)]
        started = time.monotonic()
        self.calls.total += 1
        try:
            answer = await connection.translate(text)
        except (CallFailed, ValueError, KeyError) as error:
            self.calls.failures.append(f"{error} after {time.monotonic() - started:.1f} s")
            return newest
        self.calls.saw(answer, number, time.monotonic() - started)
        expected = self.references.get(answer.revision, {}).get(text)
        if answer.translation != expected:
            said = f"revision {answer.revision} said {answer.translation!r}, not {expected!r}"
            self.calls.failures.append(said)
        if answer.revision < newest:
            self.calls.failures.append(
                f"revision {answer.revision} answered after {newest} on one connection"
            )
        return max(newest, answer.revision)
