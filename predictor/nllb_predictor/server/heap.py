"""What a burst of large batches leaves in the C library's heap is given back: resident memory tells what is used.

glibc gives each thread an arena of its own and keeps there what was freed: a process with twenty threads then holds for
ever the most that each of them ever needed. So threads share two arenas, and while calls come what is free in them goes
back to the system every few seconds. Other C libraries have neither function and are left alone.
"""

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

ARENAS = 2
EVERY_SECONDS = 10.0
"""Giving back takes milliseconds, and what is needed again has to be asked for again."""

_M_ARENA_MAX = -8  # glibc's malloc.h


@cache
def _library() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def share_arenas() -> None:
    """From now on threads share arenas; those that exist stay, so call it before there are threads."""
    library = _library()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return to the system what is free. Other threads may allocate meanwhile, and wait for an arena at most."""
    library = _library()
    if library is not None:
        library.malloc_trim(0)


async def keep_small(
    calls: Callable[[], int], give_back: Callable[[], None] = give_back, every: float = EVERY_SECONDS
) -> None:
    """Give back for ever, on another thread, but only where the number of `calls` says that there were any."""
    seen = calls()
    while True:
        await asyncio.sleep(every)
        now = calls()
        if now != seen:
            seen = now
            await asyncio.to_thread(give_back)
