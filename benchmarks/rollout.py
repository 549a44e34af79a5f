"""Rollouts on the real cluster under constant calls: what we add to conversion and load, and what callers notice.

Runs inside the cluster's network (`python -m benchmarks rollout` goes there by itself).
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.report import ROOT, Figure, Report, median_figure
from tests.support.live.caller import MINIMUM_CALLS, Caller, Calls
from tests.support.live.kubectl import Object, condition
from tests.support.live.models import TINY, archive, noisy_copy, references, sentences
from tests.support.live.world import NAMESPACE, SOURCE, World
from tests.support.serval import EngineSpec

ROLLOUTS = 20
GRPC_ROLLOUTS = 4
BEAM_SIZE = 4
INSIDE = "SERVAL_LIVE_BENCH_INSIDE"


def run() -> Report:
    """Bring the cluster up, go inside its network, and measure."""
    if not os.environ.get(INSIDE):
        return _run_inside()
    return asyncio.run(_measure())


def _run_inside() -> Report:
    subprocess.run([sys.executable, "-m", "devcluster", "up"], cwd=ROOT, check=True)
    subprocess.run(["scripts/images", "--load"], cwd=ROOT, check=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as kept:
        inside = [
            sys.executable,
            "-m",
            "devcluster",
            "exec",
            "--",
            sys.executable,
            "-m",
            "benchmarks.rollout",
        ]
        subprocess.run([*inside, kept.name], cwd=ROOT, check=True, env={**os.environ, INSIDE: "1"})
        document = json.loads(Path(kept.name).read_text())
    figures = tuple(
        Figure(**{**figure, "samples": tuple(figure["samples"])}) for figure in document["figures"]
    )
    return Report(document["name"], document["method"], figures, tuple(document["notes"]))


def _seconds(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _job_seconds(world: World, name: str, revision: int) -> float:
    jobs = world.kubectl.list("jobs", f"serval-live.dev/engine={name}")
    job = next(job for job in jobs if f"r{revision}-" in job["metadata"]["name"] + "-")
    return _seconds(job["status"]["startTime"], job["status"]["completionTime"])


def _load_seconds(pods: list[Object], revision: int) -> float:
    for pod in pods:
        env = {e["name"]: e.get("value") for c in pod["spec"]["containers"] for e in c.get("env", [])}
        if env.get("SERVAL_LIVE_MODEL_REVISION") == str(revision):
            ready = condition(pod, "Ready")["lastTransitionTime"]
            return _seconds(pod["metadata"]["creationTimestamp"], ready)
    raise LookupError(f"no pod of revision {revision}")


async def _measure() -> Report:
    with World() as world:
        second = noisy_copy(world.scratch / "second", seed=2)
        checkpoints = (second, TINY)
        verses = sentences(16)
        said = [references(folder, world.scratch, verses, BEAM_SIZE) for folder in checkpoints]
        models = [archive(folder, world.scratch / f"{folder.name}.tar.gz") for folder in checkpoints]
        bench = Bench(world, verses, said, models)
        rest = await _roll_out(bench, "rest", ROLLOUTS)
        grpc = await _roll_out(bench, "grpc", GRPC_ROLLOUTS)
    return _report(rest, grpc)


@dataclass(frozen=True)
class Bench:
    """What all rollouts share; of the pairs, the second belongs to odd revisions."""

    world: World
    verses: list[str]
    said: list[dict[str, str]]
    models: list[Path]


@dataclass(frozen=True)
class Rolled:
    """What rollouts over one protocol cost: our own share of each in seconds, and what the callers saw."""

    own: list[float]
    calls: Calls


async def _roll_out(bench: Bench, protocol: str, count: int) -> Rolled:
    """`count` rollouts of a new engine under constant calls over one protocol."""
    world, name, own = bench.world, f"bench-{protocol}", []
    engine = world.serval.add_engine(EngineSpec(name=name))
    world.kubectl.apply(
        {
            "apiVersion": "serval-live.dev/v1alpha1",
            "kind": "TranslationEngine",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "source": {"servalSource": SOURCE, "engineId": engine.id},
                "serving": {"protocol": protocol},
            },
        }
    )
    world.serval.run_build(engine.id, bench.models[1])
    world.wait("revision 1", lambda: world.serving_revision(name) == 1, name=name)
    expected = {revision: bench.said[revision % 2] for revision in range(1, count + 2)}
    caller = Caller(world.endpoint(name), bench.verses, expected)
    caller.start()
    for revision in range(2, count + 2):
        own.append(await _roll(world, caller.calls, (engine.id, name, revision), bench.models[revision % 2]))
        print(f"  {protocol}, rollout {revision - 1} of {count}: own share {own[-1]:.1f} s", flush=True)
    await caller.until_all_saw(count + 1)
    return Rolled(own, await caller.stop())


async def _roll(world: World, calls: Calls, what: tuple[str, str, int], model: Path) -> float:
    """One rollout; seconds from finished build to first answer, less conversion and load."""
    engine, name, revision = what
    await asyncio.to_thread(world.serval.put_archive, engine, model)
    finished = time.time()
    await asyncio.to_thread(world.serval.run_build, engine)
    while revision not in calls.first_seen:
        if time.time() - finished > 180:
            raise TimeoutError(f"revision {revision} never answered\n{world.kubectl.describe_engine(name)}")
        await asyncio.sleep(0.05)
    pods = await asyncio.to_thread(world.pods, name)
    conversion = await asyncio.to_thread(_job_seconds, world, name, revision)
    load = _load_seconds(pods, revision)
    return calls.first_seen[revision] - finished - conversion - load


def _report(rest: Rolled, grpc: Rolled) -> Report:
    figures: list[Figure] = [
        median_figure("own share of build finished to first answer", rest.own, "s", "<=", 5.0),
    ]
    for protocol, rolled in (("REST", rest), ("gRPC", grpc)):
        calls = rolled.calls
        for failure in calls.failures[:10]:
            print(f"  failed call: {failure}", flush=True)
        figures += [
            Figure(
                f"{protocol}: failed calls during {len(rolled.own)} rollouts",
                len(calls.failures),
                "calls",
                "==",
                0,
            ),
            Figure(f"{protocol}: calls", calls.total, "calls", ">=", MINIMUM_CALLS),
            Figure(f"{protocol}: longest call", calls.longest, "s"),
        ]
    method = (
        "Real cluster, tiny trained model, float32, BlueGreen, 8 connections (half new for each call), 24 calls a "
        "second, every answer compared with CTranslate2's. Own share = build finished to first answer of the new "
        "revision, less the Job's start to completion and the pod's creation to ready (whole seconds)."
    )
    return Report("rollout", method, tuple(figures))


if __name__ == "__main__":
    report = run()
    Path(sys.argv[1]).write_text(
        json.dumps(
            {
                "name": report.name,
                "method": report.method,
                "notes": list(report.notes),
                "figures": [vars(figure) for figure in report.figures],
            }
        )
    )
