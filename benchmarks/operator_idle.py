"""What an operator with idle engines writes to the API in ten minutes, and how much memory it holds.

A real etcd, API server and S3 server; Serval and KServe's controllers as in the tests. The operator is a process of its
own with its default waits but a sweep each minute, so that ten minutes hold ten. Idle begins when every engine is
told to sleep or to serve: pods are not watched, so that a pod's end is written down at the next sweep, and belongs
to the call before it. The same for 1,000 engines is the benchmark `idle`.
"""

import asyncio
import os
import time
from collections import Counter

from benchmarks.report import Figure, Report
from benchmarks.scale_world import (
    memory,
    on_large_bench,
    operator_writes,
    populate,
    start_operator,
    until_all_serve,
)
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES as TRANSLATION_ENGINES
from engine_operator.cluster.resources import Json
from tests.integration.operator.bench import Bench
from tests.integration.operator.process import OperatorProcess
from tests.support.waiting import eventually

ENGINES = int(os.environ.get("SERVAL_LIVE_BENCH_ENGINES", "50"))
SETTLING = 75.0
"""Seconds from the last engine that is told to sleep to the first counted one: the next sweep tells the source."""
MINUTES = float(os.environ.get("SERVAL_LIVE_BENCH_IDLE_MINUTES", "10"))


def run() -> Report:
    """Fill a namespace with engines, let the operator settle, and watch."""
    return on_large_bench(_measure)


async def _measure(bench: Bench) -> Report:
    bench.simulator.world.idle = 4.0
    engines = await asyncio.to_thread(populate, bench, ENGINES)
    await bench.make_source(serving={"scaleDownDelay": "10s", "window": "6s"})
    operator = await start_operator(bench, None)
    await until_all_serve(bench, ENGINES, 3600)
    awake = max(1, ENGINES // 50)  # A pod that runs on must cost no write either.
    for engine in engines[-awake:]:
        ref = ObjectRef(TRANSLATION_ENGINES, bench.namespace, f"e{engine}")
        await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 1}}})
    wanted = {"Asleep": ENGINES - awake, "Serving": awake}
    await until_told(bench, wanted, 900)
    return await watch(bench, operator, wanted, "operator-idle")


async def watch(bench: Bench, operator: OperatorProcess, wanted: dict[str, int], name: str) -> Report:
    """Ten minutes of engines that nobody calls. `wanted`: how many say that they sleep, and that they serve."""
    engines = sum(wanted.values())
    await asyncio.sleep(SETTLING)
    since = time.time()
    print(f"  {engines} engines serve; watching for {MINUTES:g} minutes", flush=True)
    resident = [memory(operator.process.pid)]
    while time.time() - since < MINUTES * 60:
        await asyncio.sleep(15)
        resident.append(memory(operator.process.pid))
    writes = operator_writes(bench.plane, bench.namespace, since)
    assert await _reasons(bench) == wanted, "an engine woke or fell asleep meanwhile: it was not idle"
    what = f"resident memory with {engines} engines"
    figures = (
        Figure(f"writes in {MINUTES:g} idle minutes beyond the Lease", writes.total(), "writes", "==", 0),
        Figure(what, max(resident), "MiB", "report", None, tuple(resident)),
    )
    notes = tuple(f"{count} × {kind}" for kind, count in writes.items())
    method = (
        f"{wanted['Asleep']} engines that sleep and {wanted['Serving']} that keep a pod; writes counted in the API "
        "server's audit log."
    )
    return Report(name, method, figures, notes)


async def until_told(bench: Bench, wanted: dict[str, int], at_most: float) -> None:
    """Until the status of every engine says what it does while nobody calls."""

    async def told() -> bool:
        return await _reasons(bench) == wanted

    await eventually(told, timeout=at_most, interval=5.0, describe=bench.describe)


async def _reasons(bench: Bench) -> Counter[str]:
    """How many engines say what, while nobody calls."""
    return Counter([_reason(engine) for engine in await bench.all(TRANSLATION_ENGINES)])


def _reason(engine: Json) -> str:
    """Of the condition Available, or what is still on its way."""
    status = engine.get("status", {})
    if status.get("target", {}).get("phase") != "Serving":
        return "on its way"
    return next((str(one["reason"]) for one in status["conditions"] if one["type"] == "Available"), "")
