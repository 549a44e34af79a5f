"""Four times more calls than the engine can answer, for a minute: what is still answered in time, and who stays alive.

Open loop: calls arrive at random times and wait for nobody. The server has one core and the callers the other one;
capacity is measured under the same pinning. Goodput counts answers that came within the caller's deadline while the
storm lasted, per second from the first of them to the last: both rates leave out how a loop begins and ends.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.models import converted, warm
from benchmarks.report import Figure, Report
from benchmarks.serving import Server, closed_loop, priority_of_callers, sentences, server

SECONDS = 60
TIMES = 4
DEADLINE = 30.0
CLIENTS = 64
CALLS = 3 * CLIENTS
"""Of the closed loop that measures capacity: callers for two full batches, so that neither their rate nor their memory
is new to the storm."""
QUEUE = 1024
LIVE_EVERY = 0.25
OPTIONS = {"beam_size": 1, "split_sentences": False}


@dataclass
class Seen:
    """What the callers and the probe saw."""

    accepted: list[float] = field(default_factory=list)
    """Seconds of each call that was answered in time."""
    during: list[float] = field(default_factory=list)
    """When those were answered that were before the storm ended."""
    end: float = 0.0
    refused: int = 0
    late: int = 0
    other: int = 0
    live: list[float] = field(default_factory=list)


async def _call(client: httpx.AsyncClient, url: str, body: dict[str, Any], seen: Seen) -> None:
    started = time.monotonic()
    try:
        answer = await client.post(url, json=body)
    except httpx.TransportError:
        seen.other += 1
        return
    seconds = time.monotonic() - started
    if answer.status_code == 200 and seconds <= DEADLINE:
        seen.accepted.append(seconds)
        now = time.monotonic()
        if now < seen.end:
            seen.during.append(now)
    elif answer.status_code in (200, 504):
        seen.late += 1
    elif answer.status_code == 429:
        seen.refused += 1
    else:
        seen.other += 1


async def _probe(client: httpx.AsyncClient, url: str, seen: Seen) -> None:
    while True:
        started = time.monotonic()
        await client.get(url)
        seen.live.append(time.monotonic() - started)
        await asyncio.sleep(LIVE_EVERY)


async def _storm(ours: Server, rate: float) -> Seen:
    """Calls at random times, `rate` per second, for the whole time; then what is on its way is awaited."""
    chosen = sentences(200)
    seen, chance, calls = Seen(), random.Random(7), set()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    async with (
        httpx.AsyncClient(timeout=60, limits=limits) as client,
        httpx.AsyncClient(timeout=60) as other,
    ):
        probe = asyncio.create_task(_probe(other, ours.url + "/v2/health/live", seen))
        due = time.monotonic()
        seen.end = due + SECONDS
        while due < seen.end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            body = ours.body(chance.choice(chosen), timeout_ms=int(1000 * DEADLINE), **OPTIONS)
            calls.add(asyncio.create_task(_call(client, ours.infer, body, seen)))
            due += chance.expovariate(rate)
        await asyncio.gather(*calls)
        probe.cancel()
    return seen


def run() -> Report:
    """Capacity, then the storm."""
    folder: Path = converted("int8")
    warm(folder)
    priority_of_callers("1")
    flags = ("--inter-threads", "1", "--intra-threads", "1", "--max-queue-segments", str(QUEUE))
    with server(folder, *flags, cores="0") as ours:
        bodies = [ours.body(each, timeout_ms=300_000, **OPTIONS) for each in sentences(CALLS)]
        capacity = closed_loop(ours.infer, bodies, CLIENTS).rate
        before = ours.resident()
        seen = asyncio.run(_storm(ours, TIMES * capacity))
        after = ours.resident()
    waits, live = sorted(seen.accepted), sorted(seen.live)
    goodput = (len(seen.during) - 1) / (seen.during[-1] - seen.during[0])
    figures = (
        Figure("goodput of capacity", goodput / capacity, "x", ">=", 0.9),
        Figure("p99 of answered calls", waits[int(0.99 * len(waits))], "s", "<=", DEADLINE),
        Figure("liveness, p99", 1000 * live[int(0.99 * len(live))], "ms", "<=", 100),
        Figure("liveness, longest", 1000 * live[-1], "ms"),
        Figure("memory after the storm", after / before, "x of before", "<=", 1.1),
        Figure("capacity", capacity, "calls/s"),
        Figure("answered in time", len(seen.accepted), "calls"),
        Figure("of these before the storm ended", len(seen.during), "calls"),
        Figure("refused at once (429)", seen.refused, "calls"),
        Figure("not answered in time", seen.late, "calls"),
        Figure("other failures", seen.other, "calls", "==", 0),
    )
    method = (
        f"Widened model, int8, greedy, one sentence per call; {TIMES} x capacity offered for {SECONDS} s in an open"
        f" loop, deadline {DEADLINE:.0f} s, queue limit {QUEUE} segments; server on one core, callers on the other."
    )
    return Report("overload", method, figures)
