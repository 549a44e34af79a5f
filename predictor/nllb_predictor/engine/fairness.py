"""Start-time fair queueing: of those that wait, who has been served least.

Everybody has a clock that advances by the work done for it. Whoever begins to wait is set to the common time, so that
nobody saves up turns while away, and a debt is not forgotten by leaving for a moment.
"""

from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairClock(Generic[K]):
    """Clocks of everybody that waits or waited lately."""

    def __init__(self) -> None:
        self._served: dict[K, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._served)

    def join(self, key: K) -> None:
        """`key` begins to wait."""
        self._served[key] = max(self._served.get(key, 0.0), self._now)

    def served(self, key: K) -> float:
        """The clock of `key`."""
        return self._served.get(key, self._now)

    def choose(
        self, waiting: Collection[K], order: Callable[[K], float], all_waiting: Collection[K] | None = None
    ) -> K:
        """The one furthest behind; `order` decides between equals. Those that neither wait nor are in debt are
        forgotten."""
        key = min(waiting, key=lambda each: (self.served(each), order(each)))
        kept = waiting if all_waiting is None else all_waiting
        self._served = {
            each: clock for each, clock in self._served.items() if each in kept or clock > self._now
        }
        return key

    def advance(self, work: float) -> None:
        """Everybody that waits could have got so much: whoever begins to wait from now on begins there."""
        self._now += work

    def rest(self) -> None:
        """Nobody waits: all begin anew."""
        self._served.clear()
        self._now = 0.0

    def charge(self, key: K, work: float) -> None:
        """So much was done for `key`."""
        self._served[key] = self.served(key) + work
