"""The leader is lost while it works: how long nobody leads, and whether anything is done twice.

Two operators with the Lease's shipped times. In each round every engine gets a build, and at some moment of the work
that follows the leader is killed (SIGKILL), or, in every third round, stopped (SIGSTOP) until after its successor has
begun, and let go on: it must find that it leads no more before it writes anything.
"""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from benchmarks.report import Figure, Report, median_figure
from benchmarks.scale_world import audit_entries, on_large_bench, start_operator
from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES, LEASES, Json
from tests.integration.operator.bench import Bench
from tests.integration.operator.process import OperatorProcess, received
from tests.support.serval import EngineSpec

ROUNDS = int(os.environ.get("SERVAL_LIVE_BENCH_ROUNDS", "9"))
SIZE = 24
"""Engines that get a build in each round."""
LONGEST = 22.0
"""Seconds: 15 of the Lease, 2 between two looks at it, and the first sweep."""
PATIENCE = 600.0
"""Seconds that a round's work may take; how long it takes is not what is measured."""
LEASE = "serval-live-operator"


@dataclass
class Failover:
    """One run: two operators, each with a user of its own, so that the audit log tells them apart."""

    bench: Bench
    random: Random = field(default_factory=lambda: Random(5))
    users: dict[int, str] = field(default_factory=dict)
    """The user of each operator's process."""

    async def start(self) -> OperatorProcess:
        """One more operator."""
        user = f"operator-{len(self.users)}"
        kubeconfig = self.bench.plane.kubeconfig_for(user, ("system:masters",))
        operator = await start_operator(self.bench, None, kubeconfig=str(kubeconfig))
        self.users[operator.process.pid] = user
        return operator

    def writes(self) -> list[tuple[float, str, Json]]:
        """Writes that were accepted, in order: when, by which user, what. Leases aside."""
        found = [
            (received(entry), str(entry["user"]["username"]), entry)
            for entry in audit_entries(self.bench.plane, self.bench.namespace)
            if entry["verb"] not in ("get", "list", "watch")
            and entry["objectRef"]["resource"] != "leases"
            and entry["user"]["username"] in self.users.values()
            and entry["responseStatus"]["code"] < 300
        ]
        return sorted(found, key=lambda one: one[0])

    async def holder(self) -> str:
        """Who holds the Lease."""
        found = await self.bench.cluster.find(ObjectRef(LEASES, self.bench.namespace, LEASE))
        return str(found["spec"].get("holderIdentity", "")) if found else ""


@dataclass(frozen=True)
class Lost:
    """One round: when the leader went, and the users of who led before and after."""

    at: float
    before: str
    after: str
    stopped: bool


def run() -> Report:
    """All rounds."""
    return on_large_bench(lambda bench: _measure(Failover(bench)))


async def _measure(failover: Failover) -> Report:
    bench = failover.bench
    world = bench.simulator.world
    world.tick, world.conversion, world.load, world.idle = 0.2, 1.0, 0.5, 4.0
    engines = [bench.serval.add_engine(EngineSpec(name=f"team:{n}")).id for n in range(SIZE)]
    await bench.make_source(serving={"scaleDownDelay": "6s", "window": "6s"})
    await _build(bench, engines)
    leader = await failover.start()
    await bench.until_leads()
    standby = await failover.start()
    await _until_revision(bench, 1)
    rounds: list[Lost] = []
    for number in range(1, ROUNDS + 1):
        await _build(bench, engines)
        await _until_revision(bench, number + 1, failover.random.randrange(SIZE // 2))
        lost = await _lose(failover, leader, standby, stopped=number % 3 == 0)
        leader, standby = standby, await failover.start()
        await _until_revision(bench, number + 1)
        rounds.append(lost)
        how = "stopped" if lost.stopped else "killed"
        print(
            f"  {number} of {ROUNDS}: leader {how}, {_takeover(failover.writes(), lost):.1f} s to the next write",
            flush=True,
        )
    return _report(failover, rounds)


async def _build(bench: Bench, engines: list[str]) -> None:
    model = bench.archive()
    for engine in engines:
        await asyncio.to_thread(bench.serval.run_build, engine, model)


async def _lose(failover: Failover, leader: OperatorProcess, standby: OperatorProcess, stopped: bool) -> Lost:
    pid, at, holder = leader.process.pid, time.time(), await failover.holder()
    if stopped:
        os.kill(pid, signal.SIGSTOP)
        await _until_another(failover, holder)
        await asyncio.sleep(3.0)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(5.0)
    await leader.kill()
    await _until_another(
        failover, holder
    )  # A third one that starts earlier could be quicker than the standby.
    return Lost(at, failover.users[pid], failover.users[standby.process.pid], stopped)


async def _until_another(failover: Failover, holder: str) -> None:
    while await failover.holder() == holder:  # noqa: ASYNC110, since nobody tells of a change
        await asyncio.sleep(0.2)


async def _until_revision(bench: Bench, revision: int, engines: int = SIZE) -> None:
    """Until so many engines serve a revision."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while True:
        found = {str(one["metadata"]["name"]): one.get("status") or {} for one in await bench.all(ENGINES)}
        done = [name for name, one in found.items() if (one.get("serving") or {}).get("revision") == revision]
        if len(done) >= engines:
            return
        if loop.time() > end:
            waiting = "\n".join(
                f"{name} {json.dumps(one)}" for name, one in found.items() if name not in done
            )
            raise TimeoutError(
                f"{len(done)} of {SIZE} engines serve {revision}:\n{waiting}\n{bench.describe()}"
            )
        await asyncio.sleep(0.2)


def _takeover(writes: list[tuple[float, str, Json]], lost: Lost) -> float:
    """Seconds from the loss to the successor's first write."""
    return next(at for at, user, _ in writes if user == lost.after and at > lost.at) - lost.at


def _late(writes: list[tuple[float, str, Json]], lost: Lost) -> int:
    """Writes of a leader after its successor's first."""
    first = lost.at + _takeover(writes, lost)
    return sum(user == lost.before and at > first for at, user, _ in writes)


def _report(failover: Failover, rounds: list[Lost]) -> Report:
    bench, writes = failover.bench, failover.writes()
    takeovers = [_takeover(writes, one) for one in rounds]
    converted = Counter(bench.simulator.converter.written)
    made = Counter(bench.simulator.knative.created)
    jobs = sum(
        entry["verb"] == "create" and entry["objectRef"]["resource"] == "jobs" for _, _, entry in writes
    )
    wanted = SIZE * (ROUNDS + 1)
    figures = (
        median_figure("from the leader's loss to its successor's first write", takeovers, "s"),
        Figure("longest of them", max(takeovers), "s", "<=", LONGEST),
        Figure(
            "conversions that were made twice", sum(n > 1 for n in converted.values()), "conversions", "==", 0
        ),
        Figure("conversion Jobs beyond one for each build", jobs - wanted, "Jobs", "==", 0),
        Figure("Revisions beyond one for each build", len(made) - wanted, "Revisions", "==", 0),
        Figure(
            "writes of a leader after its successor's first",
            sum(_late(writes, one) for one in rounds),
            "writes",
            "==",
            0,
        ),
    )
    method = (
        f"{SIZE} engines, {ROUNDS} rounds: each engine gets a build, and before more than half of them serve it the "
        "leader is killed, or in every third round stopped and let go on 3 s after its successor took the Lease. "
        "Shipped times of the Lease (15 s). Writes are those that the API server accepted, from its audit log."
    )
    return Report("failover", method, figures)
