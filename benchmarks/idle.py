"""An operator with 1,000 engines at rest: a start on one core, ten idle minutes, and the memory of both.

The engines are copies of two that the operator itself brought to rest, one asleep and one that keeps a pod (`copies`);
`scale` rolls every engine out, which takes a machine of its own.
"""

import asyncio
import os

from benchmarks import operator_idle
from benchmarks.copies import Copier, Pattern
from benchmarks.report import Figure, Report
from benchmarks.scale_world import (
    cpu_seconds,
    memory,
    on_large_bench,
    populate,
    restart,
    start_operator,
    until_all_serve,
    until_calm,
)
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES as TRANSLATION_ENGINES
from tests.integration.operator.bench import Bench

ENGINES = int(os.environ.get("SERVAL_LIVE_BENCH_ENGINES", "1000"))
MEMORY, RESTART = 170.0, 20.0
"""MiB; seconds from a start to a plan for every engine."""
PATIENCE = 1800.0


def run() -> Report:
    """Fill a namespace with copies, start the operator twice, and watch."""
    return on_large_bench(_measure)


async def _measure(bench: Bench) -> Report:
    awake = max(1, ENGINES // 50)
    wanted = {"Asleep": ENGINES - awake, "Serving": awake}
    await _fill(bench, awake)
    # Hashes in a copy's status are the pattern's: each service is applied once more, all at once.
    operator, _ = await restart(bench, ENGINES, PATIENCE, max_rolling=str(2 * ENGINES))
    await until_calm(operator.process.pid)
    await operator_idle.until_told(bench, wanted, PATIENCE)
    peak = memory(operator.process.pid, "VmHWM")
    await operator.stop()
    operator, seconds = await restart(bench, ENGINES, PATIENCE)
    pid = operator.process.pid
    cpu = cpu_seconds(pid)
    print(f"  a plan for each {seconds:.1f} s after a start, {cpu:.1f} s of CPU", flush=True)
    watched = await operator_idle.watch(bench, operator, wanted, "idle")
    peak = max(peak, memory(pid, "VmHWM"))
    figures = (
        *watched.figures,
        Figure("resident memory at most, in both starts and while idle", peak, "MiB", "<=", MEMORY),
        Figure("restart to first full plan, one core", seconds, "s", "<=", RESTART),
        Figure("CPU of a restart", cpu, "s"),
    )
    method = (
        f"{watched.method} The engines are copies of two that were converted and rolled out. The operator runs on one "
        "core with the libraries of its image; the other core belongs to API server, etcd and S3."
    )
    return Report("idle", method, figures, watched.notes)


async def _fill(bench: Bench, awake: int) -> None:
    """Two engines that the operator brings to rest, and copies of them."""
    bench.simulator.world.idle = 4.0
    sleeper, waker = await asyncio.to_thread(populate, bench, 2)
    await bench.make_source(serving={"scaleDownDelay": "10s", "window": "6s"})
    operator = await start_operator(bench, None)
    await until_all_serve(bench, 2, PATIENCE)
    ref = ObjectRef(TRANSLATION_ENGINES, bench.namespace, f"e{waker}")
    await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 1}}})
    await operator_idle.until_told(bench, {"Asleep": 1, "Serving": 1}, PATIENCE)
    await until_calm(operator.process.pid)
    await operator.stop()
    await bench.simulator.rest()
    ids = await asyncio.to_thread(populate, bench, ENGINES - 2)
    copier = Copier(bench)
    await copier.copy(await Pattern.of(bench, waker), ids[: awake - 1])
    await copier.copy(await Pattern.of(bench, sleeper), ids[awake - 1 :])
    print(f"  {ENGINES} engines are at rest", flush=True)
