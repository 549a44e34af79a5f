"""The scenario on the real cluster: real calls to the cluster's own names, and a node that is cordoned."""

import asyncio
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx

from devcluster import versions
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.connection import from_kubeconfig
from engine_operator.cluster.resources import CONFIG_MAPS, NAMESPACES, Resource
from tests.support.calibration.recording import Recording, Step
from tests.support.calibration.scenario import Stage, run
from tests.support.calibration.service import NAME, Place
from tests.support.calibration.watching import Watch, short
from tests.support.live.names import Names

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
DEPLOYMENT = ObjectRef(CONFIG_MAPS, "knative-serving", "config-deployment")
PROMISE = "pod-is-always-schedulable"
QUIET = 4.0
"""Seconds: longer than any pause between two writes of one controller that was seen."""
PATIENCE = 310.0
"""Seconds that a call waits: longer than the activator holds it."""
CONFIGURED = 2.0
"""Seconds that Knative's controller is given to read a setting: it tells nobody that it has."""


class RealStage(Stage):
    """The cluster of `KUBECONFIG`, from inside its network."""

    async def ask(self, tag: str = "") -> str:
        """GET on the cluster-local host; Envoy may know a new host only after a moment."""
        service = f"{tag}-{NAME}" if tag else NAME
        host = f"{service}-predictor.{self.place.namespace}.svc.cluster.local"
        address = await Names().address(host, PATIENCE)
        async with httpx.AsyncClient(timeout=PATIENCE, verify=False, trust_env=False) as http:
            answer = await http.get(f"http://{address}/", headers={"Host": host})
        answer.raise_for_status()
        return short(answer.text)

    async def give_nodes(self, some: bool) -> None:
        async for node in self.cluster.list(NODES, None):
            ref = ObjectRef(NODES, None, node["metadata"]["name"])
            await self.cluster.merge(ref, {"spec": {"unschedulable": None if some else True}})

    async def always_schedulable(self, promised: bool) -> None:
        await self.cluster.merge(DEPLOYMENT, {"data": {PROMISE: str(promised).lower()}})
        await asyncio.sleep(CONFIGURED)


async def record(image: str, tell: Callable[[Step], None]) -> Recording:
    """Run the scenario on the real cluster. The cluster's setting and its node are given back as they were."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    async with ClusterClient(from_kubeconfig(kubeconfig)) as cluster:
        before = (await cluster.get(DEPLOYMENT)).get("data", {}).get(PROMISE)
        # A name of its own: what an earlier recording left may take its time to end.
        namespace = f"calibration-{uuid.uuid4().hex[:6]}"
        await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        place = Place(namespace, image, "s3://nowhere/", "0" * 64)
        try:
            async with Watch(kubeconfig, namespace) as watch:
                stage = RealStage(cluster, watch, place, QUIET)
                try:
                    steps = await run(stage, tell)
                finally:
                    await stage.give_nodes(True)
                    await cluster.merge(DEPLOYMENT, {"data": {PROMISE: before}})
        finally:
            await cluster.delete(ObjectRef(NAMESPACES, None, namespace))
    return Recording(pinned(), steps)


def pinned() -> dict[str, str]:
    """The versions that decide what is seen."""
    known = versions.load()
    return {
        "kubernetes": known.kubernetes,
        "knative-serving": known.knative_serving,
        "net-kourier": known.net_kourier,
        "kserve": known.kserve,
    }
