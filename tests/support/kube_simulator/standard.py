"""KServe's Standard mode: an InferenceService becomes a Deployment, whose real controller then rolls the pods.

Played is only KServe itself: the Deployment as its reconciler makes it (labels of the service, pods that go one by one,
replicas from the least number), and the status. As the real one it calls a service Ready while old pods still answer,
and writes no revisions at all.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import httpx

from tests.support.kube_simulator.api import SERVICES, Api, Json
from tests.support.kube_simulator.kubelet import now

DEPLOYMENTS = "apis/apps/v1/namespaces/{}/deployments"
MODE = "serving.kserve.io/deploymentMode"
TICK = 0.2


class StandardMode:
    """Runs beside a KubeSimulator, which leaves services of this mode alone. Use as an async context manager."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._api = Api(kubeconfig, namespace)
        self._seen: dict[str, int] = {}
        self._told: dict[str, Json] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._api.__aexit__()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(httpx.TransportError):
                for service in await self._api.list(SERVICES):
                    if in_standard_mode(service) and "deletionTimestamp" not in service["metadata"]:
                        await self._follow(service)
            await asyncio.sleep(TICK)

    async def _follow(self, service: Json) -> None:
        name, generation = service["metadata"]["name"], service["metadata"]["generation"]
        if self._seen.get(name) != generation:
            wanted = deployment_of(service)
            if await self._api.create(DEPLOYMENTS, wanted) is None:
                await self._api.patch(DEPLOYMENTS, wanted["metadata"]["name"], {"spec": wanted["spec"]})
            self._seen[name] = generation
        made = await self._api.find(DEPLOYMENTS, f"{name}-predictor")
        if made is not None:
            await self._tell(service, made)

    async def _tell(self, service: Json, made: Json) -> None:
        name = service["metadata"]["name"]
        conditions = {one["type"]: one for one in made.get("status", {}).get("conditions", [])}
        available, progressing = (conditions.get(one, {}) for one in ("Available", "Progressing"))
        told = progressing if progressing.get("status") == "False" else available
        ready = {
            "type": "Ready",
            "status": told.get("status", "Unknown"),
            "reason": told.get("reason", ""),
            "message": told.get("message", ""),
        }
        status: Json = {
            "deploymentMode": "Standard",
            "observedGeneration": service["metadata"]["generation"],
            "url": f"http://{name}-predictor.{self._api.namespace}.svc.cluster.local",
            "components": {"predictor": {}},
            "conditions": [ready],
        }
        if self._told.get(name) != status:
            stamped = [{**ready, "lastTransitionTime": now()}]
            if await self._api.set_status(SERVICES, name, {**status, "conditions": stamped}):
                self._told[name] = status


def in_standard_mode(service: Json) -> bool:
    """Whether a service names this mode; the cluster's default is Knative."""
    return bool(service["metadata"].get("annotations", {}).get(MODE) == "Standard")


def deployment_of(service: Json) -> Json:
    """The Deployment of a service's predictor."""
    metadata, predictor = service["metadata"], service["spec"]["predictor"]
    name = f"{metadata['name']}-predictor"
    labels = {**metadata.get("labels", {}), "app": f"isvc.{name}", "component": "predictor"}
    pods = {"containers", "volumes", "automountServiceAccountToken", "enableServiceLinks"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": service["apiVersion"],
                    "kind": service["kind"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "replicas": predictor.get("minReplicas", 1),
            "selector": {"matchLabels": {"app": f"isvc.{name}"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **{key: value for key, value in predictor.items() if key in pods},
                    "terminationGracePeriodSeconds": 1,
                },
            },
        },
    }
