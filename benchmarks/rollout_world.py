"""What the benchmarks on the real cluster share: going inside its network, and rolling an engine under constant calls.

A benchmark of this kind is started outside, brings the cluster and this tree's images up, and runs itself again inside
the cluster's network; its report comes back as JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT, Figure, Report
from tests.support.live.caller import MINIMUM_CALLS, Caller, Calls
from tests.support.live.kubectl import Object, condition
from tests.support.live.models import TINY, archive, noisy_copy, references, sentences
from tests.support.live.world import NAMESPACE, SOURCE, World
from tests.support.serval import EngineSpec

BEAM_SIZE = 4
CONNECTIONS = 8
CALLS_PER_SECOND = 24.0
MINUTES = float(os.environ.get("SERVAL_LIVE_BENCH_MINUTES", "inf"))
INSIDE = "SERVAL_LIVE_BENCH_INSIDE"
SMALL = {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
"""Resources of a predictor: pods that drain for 30 s hold theirs, and a small node has no room for many of them."""


def inside_or(measure: Callable[[], Report], module: str) -> Report:
    """Measure where this process is inside the cluster's network; else go there and bring the report back."""
    if os.environ.get(INSIDE):
        return measure()
    subprocess.run([sys.executable, "-m", "devcluster", "up"], cwd=ROOT, check=True)
    subprocess.run(["scripts/images", "--load"], cwd=ROOT, check=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as kept:
        enter = [sys.executable, "-m", "devcluster", "exec", "--", sys.executable, "-m", module, kept.name]
        subprocess.run(enter, cwd=ROOT, check=True, env={**os.environ, INSIDE: "1"})
        document = json.loads(Path(kept.name).read_text())
    figures = tuple(
        Figure(**{**figure, "samples": tuple(figure["samples"])}) for figure in document["figures"]
    )
    return Report(document["name"], document["method"], figures, tuple(document["notes"]))


def keep(report: Report) -> None:
    """Write a report to the file that the process outside named."""
    figures = [vars(figure) for figure in report.figures]
    document = {"name": report.name, "method": report.method, "notes": list(report.notes), "figures": figures}
    Path(sys.argv[1]).write_text(json.dumps(document))


@dataclass(frozen=True)
class Bench:
    """What all rollouts share; of the pairs, the second belongs to odd revisions."""

    world: World
    verses: list[str]
    said: list[dict[str, str]]
    models: list[Path]

    @classmethod
    def of(cls, world: World) -> "Bench":
        """Two checkpoints that differ in what they say, packed, and what each must answer."""
        checkpoints = (noisy_copy(world.scratch / "second", seed=2), TINY)
        verses = sentences(16)
        said = [references(folder, world.scratch, verses, BEAM_SIZE) for folder in checkpoints]
        models = [archive(folder, world.scratch / f"{folder.name}.tar.gz") for folder in checkpoints]
        return cls(world, verses, said, models)


@dataclass(frozen=True)
class Plan:
    """One engine and how it is rolled."""

    name: str
    count: int
    protocol: str = "rest"
    resources: dict[str, Any] = field(default_factory=lambda: SMALL)
    rollout: dict[str, Any] = field(default_factory=dict)
    """`spec.rollout`."""
    patience: float = 60.0
    """Seconds that a caller waits."""
    minutes: float = float("inf")
    """No rollout begins later than this; a run that ends so tells how many there were."""


@dataclass(frozen=True)
class Times:
    """One rollout, in seconds. Conversion and load are told by the cluster in whole seconds."""

    total: float
    """Build finished to first answer of the new revision."""
    conversion: float
    """Start of the Job to its completion."""
    load: float
    """The predictor's pod scheduled to ready."""
    gap: float
    """Last answer of the revision before to the first one of the new revision."""

    @property
    def own(self) -> float:
        """What we add to conversion and load."""
        return self.total - self.conversion - self.load


@dataclass(frozen=True)
class Rolled:
    """What rollouts of one engine cost, and what its callers saw."""

    times: list[Times]
    calls: Calls


async def roll_out(bench: Bench, plan: Plan) -> Rolled:
    """Rollouts of a new engine under constant calls."""
    world, name, times = bench.world, plan.name, []
    engine = await asyncio.to_thread(_make_engine, world, plan)
    await asyncio.to_thread(world.serval.run_build, engine, bench.models[1])
    await asyncio.to_thread(
        world.wait, f"revision 1 of {name}", lambda: world.serving_revision(name) == 1, name=name
    )
    expected = {revision: bench.said[revision % 2] for revision in range(1, plan.count + 2)}
    caller = Caller(await asyncio.to_thread(world.endpoint, name), bench.verses, expected)
    caller.start(CONNECTIONS, CALLS_PER_SECOND, plan.patience)
    begun = time.monotonic()
    for revision in range(2, plan.count + 2):
        if time.monotonic() - begun > plan.minutes * 60:
            break
        model = bench.models[revision % 2]
        times.append(await _roll(world, caller.calls, (engine, name, revision), model))
        last = times[-1]
        print(
            f"  {name}, rollout {revision - 1} of {plan.count}: {last.total:.1f} s, own share {last.own:.1f} s, "
            f"gap {last.gap:.1f} s, load {last.load:.0f} s; {len(caller.calls.failures)} failed calls",
            flush=True,
        )
    await caller.until_all_saw(len(times) + 1)
    return Rolled(times, await caller.stop())


def _make_engine(world: World, plan: Plan) -> str:
    engine = world.serval.add_engine(EngineSpec(name=plan.name)).id
    world.kubectl.apply(
        {
            "apiVersion": "serval-live.dev/v1alpha1",
            "kind": "TranslationEngine",
            "metadata": {"name": plan.name, "namespace": NAMESPACE},
            "spec": {
                "source": {"servalSource": SOURCE, "engineId": engine},
                "serving": {"protocol": plan.protocol, "resources": plan.resources},
                "rollout": plan.rollout,
            },
        }
    )
    return engine


async def _roll(world: World, calls: Calls, what: tuple[str, str, int], model: Path) -> Times:
    engine, name, revision = what
    await asyncio.to_thread(world.serval.put_archive, engine, model)
    finished = time.time()
    await asyncio.to_thread(world.serval.run_build, engine)
    while revision not in calls.first_seen:
        if time.time() - finished > 240:
            described = await asyncio.to_thread(world.kubectl.describe_engine, name)
            raise TimeoutError(f"revision {revision} never answered: {calls.failures[-3:]}\n{described}")
        await asyncio.sleep(0.05)
    pods = await asyncio.to_thread(world.pods, name)
    conversion = await asyncio.to_thread(_job_seconds, world, name, revision)
    first = calls.first_seen[revision]
    load = _load_seconds(pods, revision, first)
    return Times(first - finished, conversion, load, first - calls.last_seen[revision - 1])


def _seconds(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _moment(told: Object) -> float:
    return datetime.fromisoformat(told["lastTransitionTime"]).timestamp()


def _job_seconds(world: World, name: str, revision: int) -> float:
    jobs = world.kubectl.list("jobs", f"serval-live.dev/engine={name}")
    job = next(job for job in jobs if f"r{revision}-" in job["metadata"]["name"] + "-")
    return _seconds(job["status"]["startTime"], job["status"]["completionTime"])


def _load_seconds(pods: list[Object], revision: int, answered: float) -> float:
    """From the pod's scheduling to its being ready; to its first answer where the node tells of Ready later."""
    for pod in pods:
        env = {e["name"]: e.get("value") for c in pod["spec"]["containers"] for e in c.get("env", [])}
        if env.get("SERVAL_LIVE_MODEL_REVISION") == str(revision):
            scheduled = _moment(condition(pod, "PodScheduled"))
            ready = condition(pod, "Ready")
            return min(_moment(ready) if ready["status"] == "True" else answered, answered) - scheduled
    raise LookupError(f"no pod of revision {revision}")


def call_figures(title: str, rollouts: int, seen: Sequence[Calls]) -> list[Figure]:
    """What the callers saw, all of them together; the fewest calls of one decide whether the run is valid."""
    for failure in [failure for calls in seen for failure in calls.failures][:10]:
        print(f"  failed call: {failure}", flush=True)
    failed = sum(len(calls.failures) for calls in seen)
    fewest = min(calls.total for calls in seen)
    repeated = sum(calls.names.repeated for calls in seen)
    return [
        Figure(f"{title}: failed calls during {rollouts} rollouts", failed, "calls", "==", 0),
        Figure(f"{title}: calls", sum(calls.total for calls in seen), "calls"),
        Figure(f"{title}: calls of the caller with fewest", fewest, "calls", ">=", MINIMUM_CALLS),
        Figure(f"{title}: longest call", max(calls.longest for calls in seen), "s"),
        Figure(f"{title}: name look-ups that had to be repeated", repeated, "look-ups"),
    ]
