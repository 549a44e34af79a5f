"""What an operator with 50 idle engines writes to the API in ten minutes, and how much memory it holds.

A real etcd, API server and S3 server; Serval and KServe's controllers as in the tests. The operator is a process of its
own with its default waits, so that ten minutes hold three sweeps. Idle begins when every engine is told to sleep or to
serve: pods are not watched, so that a pod's end is written down at the next sweep, once, and belongs to the call
before it.
"""

import asyncio
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.report import Figure, Report
from devcluster.control_plane import ControlPlane
from devcluster.s3 import S3Server
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES as TRANSLATION_ENGINES
from engine_operator.cluster.resources import Json
from tests.integration.operator.bench import Bench
from tests.integration.operator.setting_up import install_kinds, open_bench
from tests.support.serval import EngineSpec
from tests.support.waiting import eventually

ASLEEP = 40
AWAKE = 10
"""Engines that keep a pod (minReplicas 1): a pod that runs on must cost no write either."""
ENGINES = ASLEEP + AWAKE
SETTLING = 10.0
"""Seconds between the last engine that is told to sleep and the first counted second."""
MINUTES = float(os.environ.get("SERVAL_LIVE_BENCH_IDLE_MINUTES", "10"))


def run() -> Report:
    """Fill a namespace with engines, let the operator settle, and watch."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "plane").mkdir()
        (folder / "s3").mkdir()
        with (
            ControlPlane.start(folder / "plane", controllers=True) as plane,
            S3Server.start(folder / "s3") as s3,
        ):
            install_kinds(plane.kubeconfig)
            return asyncio.run(_measure(plane, s3, folder))


async def _measure(plane: ControlPlane, s3: S3Server, folder: Path) -> Report:
    async with open_bench(plane, s3, folder) as bench:
        operator = await bench.start_operator(time_factor="1", max_converting="10", max_rolling="10")
        await _fill(bench)
        bench.simulator.world.idle = 2.0
        await eventually(lambda: _told(bench), timeout=400, interval=2.0, describe=bench.describe)
        await asyncio.sleep(SETTLING)
        since = time.time()
        print(f"  {ENGINES} engines serve; watching for {MINUTES:g} minutes", flush=True)
        resident = [_resident(operator.process.pid)]
        while time.time() - since < MINUTES * 60:
            await asyncio.sleep(15)
            resident.append(_resident(operator.process.pid))
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


async def _fill(bench: Bench) -> None:
    """Engines, built and served; the last ones keep a pod."""
    engines = [bench.serval.add_engine(EngineSpec(name=f"team:{n}")) for n in range(ENGINES)]
    model = bench.archive()
    await bench.make_source(serving={"scaleDownDelay": "10s", "window": "6s"})
    for engine in engines:
        await asyncio.to_thread(bench.serval.run_build, engine.id, model)
    for number, engine in enumerate(engines, 1):
        await bench.until_serves(engine.id, 1, timeout=400)
        if number % 10 == 0:
            print(f"  {number} of {ENGINES} engines serve", flush=True)
    for engine in engines[ASLEEP:]:
        ref = ObjectRef(TRANSLATION_ENGINES, bench.namespace, f"e{engine.id}")
        await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 1}}})


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


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found.group(1)) / 1024 if found else 0.0
