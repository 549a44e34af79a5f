"""Waiting for a part to become ready, with a limit and a message that says what was still missing."""

import time
from collections.abc import Callable
from typing import TypeVar

from devcluster.errors import NotReady

T = TypeVar("T")

_PAUSE_S = 0.1
"""Short against the seconds that parts take, long against the cost of a look."""


def until(what: str, look: Callable[[], T | None], *, timeout_s: float, pause_s: float = _PAUSE_S) -> T:
    """Calls `look` until it returns something true, and returns that.

    `look` may raise for good; it answers None or False for "not yet". Raises NotReady after `timeout_s`.
    """
    end = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise NotReady(f"{what} was not ready within {timeout_s:.0f} s")
        time.sleep(pause_s)
