"""Memory that was freed goes back to the system."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count, repeat

from nllb_predictor.server import heap
from tests.support.waiting import consistently, eventually

BURST = """
import ctypes, re, sys, threading
from nllb_predictor.server import heap

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = (ctypes.c_void_p,)

def resident():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

def burst():
    found = [library.malloc(60_000) for _ in range(1000)]
    for each in found:
        ctypes.memset(each, 1, 60_000)
    last = library.malloc(60_000)  # What is used at the end of an arena keeps the free rest from the system.
    for each in found:
        library.free(each)

threads = [threading.Thread(target=burst) for _ in range(4)]
before = resident()
for each in threads:
    each.start()
for each in threads:
    each.join()
after = resident()
heap.give_back()
print(after - before, resident() - before)
"""


def test_what_threads_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", BURST], check=True, capture_output=True, text=True)
    held, kept = map(int, done.stdout.split())
    assert held > 50
    assert kept < held / 5


@asynccontextmanager
async def kept_small(calls: Iterator[int]) -> AsyncIterator[list[int]]:
    """What was given back, with so many calls at each look."""
    given: list[int] = []
    keeping = asyncio.create_task(heap.keep_small(lambda: next(calls), lambda: given.append(1), every=0.01))
    try:
        yield given
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def test_memory_is_given_back_while_calls_come() -> None:
    async with kept_small(count()) as given:
        await eventually(lambda: len(given) > 3)


async def test_nothing_is_given_back_where_nothing_was_asked() -> None:
    async with kept_small(repeat(7)) as given:
        await consistently(lambda: not given, for_=0.2)
