"""What the operator's large benchmarks share: a bench with many engines, and what a process or the audit log tells.

A real etcd, API server and S3 server; Serval and KServe's controllers as in the tests, in the benchmark's own process.
The operator is a process of its own, bound to one core, so that its time is what one core gives it; with the libraries
that its image has and no others, since kopf loads every client of Kubernetes that it finds.
"""

import asyncio
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import httpx

from benchmarks.report import ROOT
from devcluster.control_plane import ControlPlane
from devcluster.s3 import S3Server
from engine_operator.cluster.resources import ENGINES, Json
from tests.integration.operator.bench import Bench
from tests.integration.operator.process import OperatorProcess, received
from tests.integration.operator.setting_up import install_kinds, open_bench
from tests.support.serval import EngineSpec
from tests.support.venvs import python_with
from tinymodel.settings import cache_dir

TICKS = os.sysconf("SC_CLK_TCK")
OPERATOR = "serval-live-operator"
"""How the operator's requests begin their user agent."""


@contextmanager
def servers() -> Iterator[tuple[ControlPlane, S3Server, Path]]:
    """A control plane with our kinds, an S3 server, and a folder that goes with them, also where we are told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "plane").mkdir()
        (folder / "s3").mkdir()
        with (
            ControlPlane.start(folder / "plane", controllers=True, large=True) as plane,
            S3Server.start(folder / "s3") as s3,
        ):
            install_kinds(plane.kubeconfig)
            yield plane, s3, folder


def shipped_python() -> Path:
    """An interpreter with the operator's dependencies. Made on first use."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["operator"]]
    constraints = (ROOT / "constraints.txt").read_bytes()
    pinned = cache_dir() / f"constraints-{hashlib.sha256(constraints).hexdigest()[:12]}.txt"
    requirements = cache_dir() / "operator-requirements.txt"
    requirements.parent.mkdir(parents=True, exist_ok=True)
    pinned.write_bytes(constraints)
    requirements.write_text("\n".join([*wanted, f"-c {pinned.name}", ""]))
    return python_with(requirements, "operator")


@asynccontextmanager
async def large_bench(plane: ControlPlane, s3: S3Server, folder: Path) -> AsyncIterator[Bench]:
    """A bench whose simulator watches, looks twice a second, and has nodes for everybody."""
    async with open_bench(plane, s3, folder, large=True) as bench:
        bench.simulator.world.tick = 0.5
        bench.simulator.world.nodes = 100_000
        bench.python = await asyncio.to_thread(shipped_python)
        yield bench


T = TypeVar("T")


def on_large_bench(measure: Callable[[Bench], Awaitable[T]]) -> T:
    """What `measure` finds on servers and a bench of its own."""
    with servers() as (plane, s3, folder):

        async def measured() -> T:
            async with large_bench(plane, s3, folder) as bench:
                return await measure(bench)

        return asyncio.run(measured())


def populate(bench: Bench, count: int, revision: int = 1) -> list[str]:
    """Engines that were built before anybody looked, each with its archive; their ids."""
    model = bench.archive()
    engines = [bench.serval.add_engine(EngineSpec(name=f"team:{n}", revision=revision)) for n in range(count)]
    with ThreadPoolExecutor(8) as uploads:
        list(uploads.map(lambda one: bench.serval.archives.upload(one.id, revision, model), engines))
    return [one.id for one in engines]


async def start_operator(
    bench: Bench, cores: frozenset[int] | None = frozenset({0}), **settings: str
) -> OperatorProcess:
    """The operator, bound to cores (None: to none), with as much at work at once as these benchmarks want."""
    given = {"log_level": "info", "time_factor": "1", "max_converting": "20", "max_rolling": "20", **settings}
    operator = await bench.start_operator(code=(), **given)
    if cores is not None:
        os.sched_setaffinity(operator.process.pid, cores)
    return operator


def settled(engine: Json, revision: int | None = None) -> bool:
    """Whether an engine serves what it should, and nothing is on its way."""
    status = engine.get("status") or {}
    serving = (status.get("serving") or {}).get("revision")
    done = (status.get("target") or {}).get("phase") == "Serving"
    return done and serving is not None and revision in (None, serving)


async def count_settled(bench: Bench) -> int:
    """Engines that serve."""
    return sum(settled(one) for one in await bench.all(ENGINES))


async def until_all_serve(bench: Bench, count: int, at_most: float) -> None:
    """Wait, and say how far it is. Raises TimeoutError with the operator's last words."""
    told, loop = 0, asyncio.get_running_loop()
    end, every = loop.time() + at_most, max(1.0, count / 200)  # Whoever asks all the time is a load too.
    while (done := await count_settled(bench)) < count:
        if loop.time() > end:
            raise TimeoutError(f"{done} of {count} engines serve after {at_most:g} s\n{bench.describe()}")
        if done * 10 // count > told:
            told = done * 10 // count
            print(f"    {done} of {count} engines serve", flush=True)
        await asyncio.sleep(every)


async def until_calm(pid: int) -> None:
    """Until the operator takes less than a tenth of its core over five seconds: pods fall asleep, and it tells so."""
    for _ in range(240):
        before = cpu_seconds(pid)
        await asyncio.sleep(5)
        if cpu_seconds(pid) - before < 0.5:
            return
    raise TimeoutError("the operator does not fall silent")


async def restart(bench: Bench, size: int, at_most: float, **settings: str) -> tuple[OperatorProcess, float]:
    """A new process on one core; seconds until it has made a plan for every engine."""
    began = time.monotonic()
    operator = await start_operator(bench, frozenset({0}), **settings)
    while True:
        try:
            if await bench.metric("serval_live_engines_planned") >= size:
                return operator, time.monotonic() - began
        except (AssertionError, httpx.HTTPError):
            pass  # It does not serve its figures yet.
        if time.monotonic() - began > at_most:
            raise TimeoutError(f"no plan for every engine\n{bench.describe()}")
        await asyncio.sleep(0.2)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process in MiB; `VmHWM` for the most that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def audit_entries(plane: ControlPlane, namespace: str) -> Iterator[Json]:
    """Every finished request in a namespace, from the audit log and what was rotated away."""
    log = plane.audit_log
    for file in sorted(log.parent.glob(f"{log.stem}*{log.suffix}"), key=lambda one: one.stat().st_mtime):
        with file.open("rb") as lines:
            for line in lines:
                if namespace.encode() in line and line.endswith(b"\n"):
                    entry: Json = json.loads(line)
                    if (entry.get("objectRef") or {}).get("namespace") == namespace:
                        yield entry


def operator_writes(plane: ControlPlane, namespace: str, since: float) -> Counter[str]:
    """The operator's writes by verb and resource, without its Lease."""
    return Counter(
        f"{one['verb']} {one['objectRef']['resource']}"
        for one in audit_entries(plane, namespace)
        if one.get("userAgent", "").startswith(OPERATOR)
        and one["objectRef"]["resource"] != "leases"
        and one["verb"] not in ("get", "list", "watch")
        and received(one) >= since
    )


def operator_calls(plane: ControlPlane, namespace: str) -> Counter[str]:
    """The operator's requests by verb and resource, without its Lease and without watches."""
    return Counter(
        f"{one['verb']} {one['objectRef']['resource']}"
        for one in audit_entries(plane, namespace)
        if one.get("userAgent", "").startswith(OPERATOR)
        and one["objectRef"]["resource"] != "leases"
        and one["verb"] != "watch"
    )
