"""Trouble on demand: wrong answers, slow answers, cut connections, short lists, things that happen between polls.

A fault is matched against each API request in the order in which faults were added; the first that fits is used. The
control paths of the stand-in itself are never broken.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from tests.support.trouble import Answer as Answer
from tests.support.trouble import Match as Match


class Kind(Enum):
    """What a fault does once its `after` has passed."""

    ANSWER = "answer"
    RESET = "reset"
    PASS = "pass"


@dataclass
class Fault:
    """One kind of trouble. `after` seconds pass before it shows: a proxy that cuts a poll, a slow server."""

    kind: Kind
    match: Match = field(default_factory=Match)
    after: float = 0.0
    answer: Answer | None = None
    _used: int = 0
    _since: float = field(default_factory=time.monotonic)

    def takes(self, method: str, target: str) -> bool:
        match = self.match
        return (
            re.search(match.path, target, re.IGNORECASE) is not None
            and match.method in (None, method)
            and (match.times is None or self._used < match.times)
            and (match.for_ is None or time.monotonic() - self._since < match.for_)
        )

    def use(self) -> None:
        self._used += 1


class Faults:
    """All trouble that waits for its request. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._short_lists: list[int] = []
        self._in_gap: list[Callable[[], object]] = []

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        with self._lock:
            self._faults = [kept for kept in self._faults if kept is not fault]

    def clear(self) -> None:
        """Everything works again."""
        with self._lock:
            self._faults.clear()
            self._short_lists.clear()
            self._in_gap.clear()

    def take(self, method: str, target: str) -> Fault | None:
        """The fault for this request, counted as used."""
        with self._lock:
            for fault in self._faults:
                if fault.takes(method, target):
                    fault.use()
                    return fault
        return None

    def shorten_lists(self, keep: int, times: int) -> None:
        """The next `times` engine lists hold only `keep` engines, with 200."""
        with self._lock:
            self._short_lists += [keep] * times

    def take_list_length(self) -> int | None:
        """How many engines the present list may hold; None for all."""
        with self._lock:
            return self._short_lists.pop(0) if self._short_lists else None

    def in_gap(self, action: Callable[[], object]) -> None:
        """Do this once, right after the next long poll has got its answer and before the caller can ask again."""
        with self._lock:
            self._in_gap.append(action)

    def take_gap_actions(self) -> list[Callable[[], object]]:
        with self._lock:
            actions, self._in_gap = self._in_gap, []
        return actions
