"""What an operator with 1,000 idle engines writes to the API in ten minutes, and how much memory it holds.

A real etcd, API server and S3 server; Serval and KServe's controllers as in the tests. The operator is a process of its
own with its default waits but a sweep each minute, so that ten minutes hold ten. Idle begins when every engine is
told to sleep or to serve: pods are not watched, so that a pod's end is written down at the next sweep, and belongs
to the call before it.
"""

import asyncio
import os
import time
from collections import Counter

from benchmarks.report import Figure, Report
from benchmarks.scale_world import large_bench, memory, populate, servers, start_operator, until_all_serve
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES as TRANSLATION_ENGINES
from engine_operator.cluster.resources import Json
from tests.integration.operator.bench import Bench
from tests.support.waiting import eventually

ENGINES = int(os.environ.get("SERVAL_LIVE_BENCH_ENGINES", "1000"))
AWAKE = max(1, ENGINES // 50)
"""Engines that keep a pod (minReplicas 1): a pod that runs on must cost no write either."""
ASLEEP = ENGINES - AWAKE
SETTLING = 75.0
"""Seconds from the last engine that is told to sleep to the first counted one: the next sweep tells the source."""
MINUTES = float(os.environ.get("SERVAL_LIVE_BENCH_IDLE_MINUTES", "10"))


def run() -> Report:
    """Fill a namespace with engines, let the operator settle, and watch."""
    with servers() as (plane, s3, folder):

        async def measure() -> Report:
            async with large_bench(plane, s3, folder) as bench:
                return await _measure(bench)

        return asyncio.run(measure())


async def _measure(bench: Bench) -> Report:
    bench.simulator.world.idle = 4.0
    engines = await asyncio.to_thread(populate, bench, ENGINES)
    await bench.make_source(serving={"scaleDownDelay": "10s", "window": "6s"})
    operator = await start_operator(bench, None)
    await until_all_serve(bench, ENGINES, 3600)
    for engine in engines[ASLEEP:]:
        ref = ObjectRef(TRANSLATION_ENGINES, bench.namespace, f"e{engine}")
        await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 1}}})
    await eventually(lambda: _told(bench), timeout=900, interval=5.0, describe=bench.describe)
    await asyncio.sleep(SETTLING)
    since = time.time()
    print(f"  {ENGINES} engines serve; watching for {MINUTES:g} minutes", flush=True)
    resident = [memory(operator.process.pid)]
    while time.time() - since < MINUTES * 60:
        await asyncio.sleep(15)
        resident.append(memory(operator.process.pid))
    writes = Counter(f"{one['verb']} {one['objectRef']['resource']}" for one in bench.writes(since=since))
    assert await _told(bench), "an engine woke or fell asleep meanwhile: it was not idle"
    figures = (
        Figure(f"writes in {MINUTES:g} idle minutes beyond the Lease", writes.total(), "writes", "==", 0),
        Figure(
            f"resident memory with {ENGINES} engines", max(resident), "MiB", "report", None, tuple(resident)
        ),
    )
    notes = tuple(f"{count} × {kind}" for kind, count in writes.items())
    method = f"{ASLEEP} engines that sleep and {AWAKE} that keep a pod; writes counted in the API server's audit log."
    return Report("operator-idle", method, figures, notes)


async def _told(bench: Bench) -> bool:
    """Whether the status of every engine says what it does while nobody calls."""
    reasons = Counter(_reason(engine) for engine in await bench.all(TRANSLATION_ENGINES))
    return reasons == {"Asleep": ASLEEP, "Serving": AWAKE}


def _reason(engine: Json) -> str:
    """Of the condition Available, or what is still on its way."""
    status = engine.get("status", {})
    if status.get("target", {}).get("phase") != "Serving":
        return "on its way"
    return next((str(one["reason"]) for one in status["conditions"] if one["type"] == "Available"), "")
