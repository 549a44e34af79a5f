"""What can go wrong with a connection or a request, to which ones it happens, and when.

A rule is looked at when a request arrives, and by `HANG` also while its answer passes: a fault that is switched on
hits what is already under way, and one that is switched off lets it go on.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.support.trouble import Answer as Answer
from tests.support.trouble import Match as Match


class Kind(Enum):
    """What happens once a fault's time has come."""

    ANSWER = "the proxy answers in the server's place"
    RESET = "the client gets a TCP reset"
    CLOSE = "both sides are closed in order, in the middle of whatever passes"
    HANG = "no byte passes any more, nothing is closed; goes on where it stopped when the fault ends; never counted"
    HALF_OPEN = "the server's side is closed, the client hears nothing of it"


HTML_502 = Answer(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")
"""What a proxy says that knows nothing of its server's ways."""


@dataclass
class Fault:
    """One kind of trouble, from the moment at which it was added."""

    kind: Kind
    match: Match = field(default_factory=Match)
    after: float = 0.0
    """Seconds from a request's arrival until this happens to it."""
    after_bytes: int = 0
    """Bytes of the answer that still pass (`CLOSE`, `RESET`)."""
    answer: Answer | None = None
    only_running: bool = False
    """Requests that arrive later pass: what is left of a route that a balancer forgot."""
    when: Callable[[Any], bool] | None = None
    """Looks at the whole `Request`."""
    hits: list[Any] = field(default_factory=list)
    """The requests that it has hit, oldest first."""
    _since: float = field(default_factory=time.monotonic)

    def takes(self, request: Any) -> bool:
        """Whether a request is hit; counts nothing."""
        match = self.match
        return (
            re.search(match.path, request.target, re.IGNORECASE) is not None
            and match.method in (None, request.method)
            and (match.times is None or len(self.hits) < match.times)
            and (match.for_ is None or time.monotonic() - self._since < match.for_)
            and (not self.only_running or request.at < self._since)
            and (self.when is None or self.when(request))
        )


class Rules:
    """All faults of a proxy. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def remove(self, fault: Fault | None) -> None:
        """One, or all."""
        with self._lock:
            self._faults = [kept for kept in self._faults if fault is not None and kept is not fault]

    def take(self, request: Any) -> Fault | None:
        """The first fault for a request that has just arrived, counted as used."""
        with self._lock:
            for fault in self._faults:
                if fault.kind is not Kind.HANG and not fault.after_bytes and fault.takes(request):
                    fault.hits.append(request)
                    return fault
        return None

    def take_at(self, request: Any, passed: int) -> Fault | None:
        """The fault whose bytes of an answer have passed, counted as used."""
        with self._lock:
            for fault in self._faults:
                if 0 < fault.after_bytes <= passed and fault.takes(request):
                    fault.hits.append(request)
                    return fault
        return None

    def holds(self, request: Any) -> bool:
        """Whether what passes for a request must wait."""
        with self._lock:
            return any(
                fault.kind is Kind.HANG
                and time.monotonic() - request.at >= fault.after
                and fault.takes(request)
                for fault in self._faults
            )
