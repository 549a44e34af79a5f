"""The scenario on the simulator, beside a real API server."""

import asyncio
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from engine_operator.cluster.client import ClusterClient
from engine_operator.domain.keys import ArtifactKey, ConversionOptions
from tests.support.calibration.recording import Step
from tests.support.calibration.scenario import Stage, run
from tests.support.calibration.service import ENDING, ENGINE, FAILURE, LOAD, NAME, Place
from tests.support.calibration.watching import Watch, short
from tests.support.kube_simulator import Converter, Ending, KubeSimulator, Store, World

QUIET = 0.4
"""Seconds: some turns of the simulator."""
IDLE = 1.5
"""Seconds until a Revision sleeps: longer than a step that nobody wants to sleep in."""
SPEED = 10.0
"""A slow load of the scenario, in the simulator's time."""


@dataclass(frozen=True)
class Beside:
    """What the simulator works on."""

    kubeconfig: Path
    namespace: str
    store: Store
    bucket: str


class SimulatedStage(Stage):
    """A namespace that the simulator watches."""

    simulator: KubeSimulator

    async def ask(self, tag: str = "") -> str:
        return short(await self.simulator.knative.ask(NAME, tag))

    async def give_nodes(self, some: bool) -> None:
        self.simulator.world.nodes = 100 if some else 0

    async def always_schedulable(self, promised: bool) -> None:
        self.simulator.world.always_schedulable = promised


async def simulate(cluster: ClusterClient, beside: Beside) -> tuple[Step, ...]:
    """Run the scenario on a simulator of its own."""
    digest = await _artifact(beside)
    place = Place(beside.namespace, "dev.local/none:1", f"s3://{beside.bucket}/calibration/", digest)
    world = World(load_ending=_ending, load_of=_load, tick=0.05, idle=IDLE, linger=IDLE)
    async with (
        Watch(beside.kubeconfig, beside.namespace) as watch,
        KubeSimulator(beside.kubeconfig, beside.namespace, beside.store, world) as simulator,
    ):
        stage = SimulatedStage(cluster, watch, place, QUIET)
        stage.simulator = simulator
        steps = await run(stage)
        simulator.check()
    return steps


def _ending(environment: dict[str, str]) -> Ending | None:
    code = int(environment[ENDING])
    return Ending(code, **FAILURE) if code else None


def _load(environment: dict[str, str]) -> float:
    return 0.1 + float(environment[LOAD]) / SPEED


async def _artifact(beside: Beside) -> str:
    """Put an artifact into the bucket: the simulated predictor loads nothing else. Digest of its manifest."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("config.json"))
    client = beside.store.client()
    await asyncio.to_thread(
        client.put_object, Bucket=beside.bucket, Key="source.tar.gz", Body=packed.getvalue()
    )
    arguments = {
        "source": f"s3://{beside.bucket}/source.tar.gz",
        "destination": f"s3://{beside.bucket}/calibration/",
        "--artifact-key": str(ArtifactKey.of(ENGINE, 1, ConversionOptions())),
        "--attempt": "a1",
        "--engine-id": ENGINE,
        "--revision": "1",
        "--quantization": "int8",
    }
    failed = await Converter(beside.store).convert(arguments, None)
    assert failed is None, failed
    kept = await asyncio.to_thread(client.get_object, Bucket=beside.bucket, Key="calibration/manifest.json")
    return hashlib.sha256(kept["Body"].read()).hexdigest()
