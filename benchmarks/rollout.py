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
from datetime import datetime
from pathlib import Path

from benchmarks.report import ROOT, Figure, Report, median_figure
from tests.support.live.caller import MINIMUM_CALLS, Caller, Calls
from tests.support.live.kubectl import Object, condition
from tests.support.live.models import TINY, archive, noisy_copy, references, sentences
from tests.support.live.world import World
from tests.support.serval import EngineSpec

ROLLOUTS = 20
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
    own: list[float] = []
    with World() as world:
        engine = world.serval.add_engine(EngineSpec(name="bench"))
        name = f"e{engine.id}"
        scratch = world.scratch
        second = noisy_copy(scratch / "second", seed=2)
        archives = [archive(second, scratch / "even.tar.gz"), archive(TINY, scratch / "odd.tar.gz")]
        verses = sentences(16)
        said = [references(folder, scratch, verses, BEAM_SIZE) for folder in (second, TINY)]
        expected = {revision: said[revision % 2] for revision in range(1, ROLLOUTS + 2)}
        world.serval.run_build(engine.id, archives[1])
        world.wait("revision 1", lambda: world.serving_revision(name) == 1, name=name)
        caller = Caller(world.endpoint(name), verses, expected)
        caller.start()
        for revision in range(2, ROLLOUTS + 2):
            own.append(await _roll(world, caller.calls, (engine.id, name, revision), archives[revision % 2]))
            print(f"  rollout {revision - 1} of {ROLLOUTS}: own share {own[-1]:.1f} s", flush=True)
        calls = await caller.stop()
    return _report(own, calls)


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


def _report(own: list[float], calls: Calls) -> Report:
    for failure in calls.failures[:10]:
        print(f"  failed call: {failure}", flush=True)
    figures = (
        median_figure("own share of build finished to first answer", own, "s", "<=", 5.0),
        Figure(f"failed calls during {ROLLOUTS} rollouts", len(calls.failures), "calls", "==", 0),
        Figure("calls", calls.total, "calls", ">=", MINIMUM_CALLS),
        Figure("longest call", calls.longest, "s"),
    )
    method = (
        "Real cluster, tiny trained model, float32, BlueGreen, 8 connections (half new for each call), 24 calls a "
        "second, every answer compared with CTranslate2's. Own share = build finished to first answer of the new "
        "revision, less the Job's start to completion and the pod's creation to ready (whole seconds)."
    )
    return Report("rollout", method, figures)


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
