"""Time and identity: a clock that tests can move, dates as Serval writes them, ids as MongoDB makes them.

Times are counted in ticks of 100 ns since 1970 (the resolution of .NET), because Serval shows seven fractional digits
where an object has just been created and the database's three digits afterwards.
"""

import random
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import NewType

Ticks = NewType("Ticks", int)
"""100 ns units since 1970-01-01 UTC."""

TICKS_PER_SECOND = 10_000_000
TICKS_PER_MILLISECOND = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OBJECT_ID = re.compile(r"[0-9a-f]{24}", re.IGNORECASE)


class Clock:
    """The server's wall clock. It runs by itself; `step` makes it jump, backwards too; `freeze` stops it."""

    def __init__(self) -> None:
        self._offset = 0
        self._frozen: Ticks | None = None

    def now(self) -> Ticks:
        if self._frozen is not None:
            return self._frozen
        return Ticks(time.time_ns() // 100 + self._offset)

    def step(self, seconds: float) -> None:
        """Jump by some seconds; a frozen clock stays frozen at the new time."""
        ticks = round(seconds * TICKS_PER_SECOND)
        self._offset += ticks
        if self._frozen is not None:
            self._frozen = Ticks(self._frozen + ticks)

    def freeze(self) -> None:
        self._frozen = self.now()

    def run(self) -> None:
        """Let a frozen clock go on from where it stands."""
        if self._frozen is not None:
            self._offset = self._frozen - time.time_ns() // 100
            self._frozen = None


class ObjectIds:
    """24 hex digits: seconds, a value of this process, a counter; later ids are greater while the clock runs on."""

    def __init__(self, clock: Clock, random_source: random.Random) -> None:
        self._clock = clock
        self._process = random_source.getrandbits(40)
        self._counter = random_source.getrandbits(20)
        self._lock = threading.Lock()

    def new(self) -> str:
        with self._lock:
            self._counter = (self._counter + 1) % (1 << 24)
            seconds = self._clock.now() // TICKS_PER_SECOND
            return f"{seconds:08x}{self._process:010x}{self._counter:06x}"


def is_object_id(text: str) -> bool:
    return OBJECT_ID.fullmatch(text) is not None


def stored(ticks: Ticks) -> Ticks:
    """What the database keeps of a time: milliseconds, the rest cut off."""
    return Ticks(ticks - ticks % TICKS_PER_MILLISECOND)


def written(ticks: Ticks) -> str:
    """ISO 8601 in UTC; trailing zeros of the fraction are dropped, and the whole fraction where it is zero."""
    seconds, fraction = divmod(ticks, TICKS_PER_SECOND)
    whole = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:07d}".rstrip("0")
    return f"{whole}.{digits}Z" if digits else f"{whole}Z"


def read(text: str) -> Ticks:
    """A date from a query; one without offset is UTC. Raises ValueError where it is no date."""
    moment = datetime.fromisoformat(text.replace(" ", "+"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Ticks((moment - EPOCH) // timedelta(microseconds=1) * 10)
