"""One operator with 10, 100 and 1,000 engines: what each costs, and whether a thousand cost more than ten hundreds.

For each size on a fresh control plane: all engines have a model when the operator starts; it converts and rolls out all
of them, falls silent, is asked for a hundred small things, and is started again. It runs on one core throughout.
"""

import asyncio
import json
import math
import os
import statistics
import time
from dataclasses import asdict, dataclass

from benchmarks.lines import Series, lines
from benchmarks.report import Figure, Report, commit
from benchmarks.scale_world import (
    OPERATOR,
    audit_entries,
    cpu_seconds,
    memory,
    on_large_bench,
    operator_calls,
    populate,
    restart,
    start_operator,
    until_all_serve,
    until_calm,
)
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES
from tests.integration.operator.bench import Bench
from tests.integration.operator.process import received
from tinymodel.settings import cache_dir

SIZES = tuple(int(size) for size in os.environ.get("SERVAL_LIVE_BENCH_SIZES", "10,100,1000").split(","))
EDITS = 100
EDIT_EVERY = 0.2
"""Seconds between two edits: five a second, so that they do not wait for each other."""
MEMORY, RESTART = 170.0, 20.0
"""MiB at the largest size; seconds from a start to a plan for every engine."""
LINEAR = 1.25
"""Cost per engine at the largest size over that at a tenth of it: 10 would be quadratic. More than 1 since engines at
work are looked at every few seconds, and the simulated cluster, on the other core, takes longer with more of them."""
PATIENCE = 3600.0
"""Seconds for everything that takes as long as the machine needs."""
ANSWERED_WITHIN = 120.0
"""Seconds from the last edit until all must be answered."""


@dataclass(frozen=True)
class Sized:
    """What one size cost."""

    size: int
    serving: float
    """Seconds until all serve."""
    cpu: float
    """Seconds of the operator's processor time until then."""
    calls: float
    """API requests of the operator until then."""
    latencies: tuple[float, ...]
    """Seconds from an edit of an engine to the operator's write that answers it."""
    peak: float
    """MiB."""
    restart: float
    """Seconds from a start to a plan for every engine."""
    restart_cpu: float


def run() -> Report:
    """Every size, one after the other. A size that this very commit has is kept: an interrupted run goes on."""
    return _report([_kept(size) for size in SIZES])


def _kept(size: int) -> Sized:
    code = commit()
    file = cache_dir() / "benchmarks" / f"scale-{code}-{size}.json"
    if file.exists() and not code.endswith("+"):
        found = json.loads(file.read_text())
        return Sized(**{**found, "latencies": tuple(found["latencies"])})
    sized = _measure(size)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(sized)))
    return sized


def _measure(size: int) -> Sized:
    return on_large_bench(lambda bench: _one(bench, size))


async def _one(bench: Bench, size: int) -> Sized:
    bench.simulator.world.idle = 5.0
    engines = await asyncio.to_thread(populate, bench, size)
    await bench.make_source(serving={"scaleDownDelay": "6s", "window": "6s"})
    began = time.monotonic()
    operator = await start_operator(bench)
    pid = operator.process.pid
    await until_all_serve(bench, size, PATIENCE)
    serving, cpu = time.monotonic() - began, cpu_seconds(pid)
    calls = operator_calls(bench.plane, bench.namespace).total()
    print(
        f"  {size} engines: all serve after {serving:.0f} s, {cpu:.0f} s of CPU, {calls / size:.0f} calls each",
        flush=True,
    )
    await until_calm(pid)
    latencies = await _edit(bench, engines)
    print(f"  {size} engines: an edit is answered after {statistics.median(latencies):.3f} s", flush=True)
    peak = memory(pid, "VmHWM")
    await operator.stop()
    restarted, seconds = await restart(bench, size, PATIENCE)
    print(f"  {size} engines: a plan for each {seconds:.1f} s after a start, {peak:.0f} MiB", flush=True)
    pid = restarted.process.pid
    restart_cpu, peak = cpu_seconds(pid), max(peak, memory(pid, "VmHWM"))
    return Sized(size, serving, cpu, calls, latencies, peak, seconds, restart_cpu)


async def _edit(bench: Bench, engines: list[str]) -> tuple[float, ...]:
    """Pause engines one by one, or let them go on; each such edit is told in its engine's status."""
    since = time.time()
    for number in range(EDITS):
        name = f"e{engines[number % len(engines)]}"
        paused = number // len(engines) % 2 == 0
        await bench.cluster.merge(ObjectRef(ENGINES, bench.namespace, name), {"spec": {"paused": paused}})
        await asyncio.sleep(EDIT_EVERY)
    end = time.monotonic() + ANSWERED_WITHIN
    while len(found := _answered(bench, since)) < EDITS:
        if time.monotonic() > end:
            raise TimeoutError(f"{EDITS - len(found)} of {EDITS} edits were not answered\n{bench.describe()}")
        await asyncio.sleep(10)
    return found


def _answered(bench: Bench, since: float) -> tuple[float, ...]:
    """For each edit that was answered, the time until the operator's next write of that engine's status."""
    asked: dict[str, list[float]] = {}
    found: list[float] = []
    for entry in audit_entries(bench.plane, bench.namespace):
        reference, at = entry["objectRef"], received(entry)
        if at < since or reference["resource"] != ENGINES.plural or entry["verb"] != "patch":
            continue
        name = reference["name"]
        if not entry.get("userAgent", "").startswith(OPERATOR):
            asked.setdefault(name, []).append(at)
        elif reference.get("subresource") == "status":
            found += [at - edit for edit in asked.pop(name, [])]  # One write may answer two edits.
    return tuple(found)


def _report(sized: list[Sized]) -> Report:
    largest, figures = sized[-1], []
    for one in sized:
        what = f"{one.size} engines"
        ordered = sorted(one.latencies)
        figures += [
            Figure(f"{what}: until all serve", one.serving, "s"),
            Figure(f"{what}: operator's CPU until then, per engine", one.cpu / one.size, "s"),
            Figure(f"{what}: API calls per engine until then", one.calls / one.size, "calls"),
            Figure(f"{what}: reconcile latency p50", statistics.median(ordered), "s", samples=one.latencies),
            Figure(f"{what}: reconcile latency p99", ordered[math.ceil(0.99 * len(ordered)) - 1], "s"),
            Figure(f"{what}: CPU of a restart", one.restart_cpu, "s"),
        ]
        if one is largest:
            figures += [
                Figure(f"{what}: resident memory at most", one.peak, "MiB", "<=", MEMORY),
                Figure(f"{what}: restart to first full plan, one core", one.restart, "s", "<=", RESTART),
            ]
        else:
            figures += [
                Figure(f"{what}: resident memory at most", one.peak, "MiB"),
                Figure(f"{what}: restart to first full plan, one core", one.restart, "s"),
            ]
    figures += _growth(sized)
    _plot(sized)
    method = (
        "All engines have a model when the operator starts, bound to one core and with the libraries of its image, "
        "with 20 conversions and 20 rollouts at once (shipped: 3); a conversion and a load last 0.1 s. Reconcile "
        "latency: from a person's edit of an engine to the operator's write that answers it, five a second, by the "
        "times of the API server's audit log. The other core belongs to API server, etcd, S3 and everything that is "
        "simulated."
    )
    return Report(
        "scale",
        method,
        tuple(figures),
        ("[plot](plots/scale.svg): cost by number of engines, both axes logarithmic",),
    )


def _growth(sized: list[Sized]) -> list[Figure]:
    """Cost per engine at the largest size over that at the next smaller."""
    if len(sized) < 2:
        return []
    small, large = sized[-2:]
    what = f"per engine at {large.size} over {small.size}"
    return [
        Figure(f"CPU {what}", large.cpu / large.size / (small.cpu / small.size), "x", "<=", LINEAR),
        Figure(f"API calls {what}", large.calls / large.size / (small.calls / small.size), "x", "<=", LINEAR),
    ]


def _plot(sized: list[Sized]) -> None:
    sizes = [one.size for one in sized]
    lines(
        "scale",
        "Cost by number of engines",
        [
            Series("until all serve, s", sizes, [one.serving for one in sized]),
            Series("operator's CPU until then, s", sizes, [one.cpu for one in sized]),
            Series("API calls until then, hundreds", sizes, [one.calls / 100 for one in sized]),
            Series("restart to first full plan, s", sizes, [one.restart for one in sized]),
            Series("resident memory, MiB", sizes, [one.peak for one in sized]),
        ],
    )
