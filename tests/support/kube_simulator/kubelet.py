"""Scheduler and kubelet: pods get a node, run, end as the world says, and vanish when they are deleted."""

import asyncio
import base64
import itertools
import json
import time
from datetime import UTC, datetime

from tests.support.kube_simulator.api import NODES, PODS, SECRETS, Api, Json
from tests.support.kube_simulator.converter import Converter
from tests.support.kube_simulator.world import Ending, World

NODE = "simulated-node"
HEARTBEAT = 10.0
"""Seconds; Kubernetes gives a silent node up after forty."""
REVISION_LABEL = "serving.knative.dev/revision"
_addresses = itertools.count(1)


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def environment(container: Json) -> dict[str, str]:
    """Plain variables of a container."""
    return {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}


def arguments(container: Json) -> dict[str, str]:
    """`convert SRC DST --flag value …` as a mapping; SRC and DST as `source` and `destination`."""
    words = container["args"]
    return {"source": words[1], "destination": words[2], **dict(zip(words[3::2], words[4::2], strict=True))}


class Kubelet:
    """Runs the pods of one namespace."""

    def __init__(self, api: Api, world: World, converter: Converter) -> None:
        self._api = api
        self._world = world
        self._converter = converter
        self._running: dict[str, asyncio.Task[None]] = {}
        self._beaten = float("-inf")
        self.failures: list[BaseException] = []

    async def beat(self) -> None:
        """Say that the node lives: pods of a node that is unknown or silent are removed by Kubernetes."""
        if time.monotonic() - self._beaten < HEARTBEAT:
            return
        self._beaten = time.monotonic()
        await self._api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "reason": "KubeletReady"}
        await self._api.set_status(NODES, NODE, {"conditions": [ready]})

    async def tick(self, pods: list[Json]) -> None:
        """One look at all pods."""
        taken = sum("nodeName" in pod["spec"] and _predictor(pod) for pod in pods)
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                await self._end(uid)
                await self._api.delete(PODS, pod["metadata"]["name"], grace=0)
            elif pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            elif "nodeName" not in pod["spec"]:
                taken += await self._schedule(pod, taken)
            elif uid not in self._running:
                run = self._run_predictor(pod) if _predictor(pod) else self._run_converter(pod)
                self._running[uid] = asyncio.create_task(self._guard(run))

    async def close(self) -> None:
        """End everything."""
        for uid in list(self._running):
            await self._end(uid)

    async def _guard(self, run: "asyncio.Future[None] | object") -> None:
        try:
            await run  # type: ignore[misc]
        except Exception as error:
            self.failures.append(error)

    async def _end(self, uid: str) -> None:
        task = self._running.pop(uid, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _schedule(self, pod: Json, taken: int) -> bool:
        name = pod["metadata"]["name"]
        if not _predictor(pod) or taken < self._world.nodes:
            await self._api.bind(name, NODE)
            return True
        told = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        known = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
        if not known:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": told,
            }
            await self._api.set_status(PODS, name, {"phase": "Pending", "conditions": [condition]})
        return False

    async def _run_converter(self, pod: Json) -> None:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        url = await self._source_url(pod, container)
        await self._api.set_status(
            PODS, name, _status(container, "Running", {"running": {"startedAt": now()}})
        )
        await asyncio.sleep(self._world.conversion)
        await self._world.conversions_may_end.wait()
        given = arguments(container)
        ending = self._world.conversion_ending(given) or await self._converter.convert(given, url)
        phase = "Failed" if ending else "Succeeded"
        await self._api.set_status(PODS, name, _status(container, phase, {"terminated": _terminated(ending)}))

    async def _source_url(self, pod: Json, container: Json) -> str | None:
        """The presigned URL from its Secret; waits for that as a kubelet does."""
        wanted = next((one for one in container["env"] if one["name"] == "SERVAL_LIVE_SOURCE_URL"), None)
        if wanted is None:
            return None
        reference = wanted["valueFrom"]["secretKeyRef"]
        told = False
        while (secret := await self._api.find(SECRETS, reference["name"])) is None:
            if not told:
                waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}}
                await self._api.set_status(
                    PODS, pod["metadata"]["name"], _status(container, "Pending", waiting)
                )
                told = True
            await asyncio.sleep(self._world.tick)
        return base64.b64decode(secret["data"][reference["key"]]).decode()

    async def _run_predictor(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        container = next(one for one in pod["spec"]["containers"] if one["name"] == "kserve-container")
        await self._api.set_status(
            PODS, name, _status(container, "Running", {"running": {"startedAt": now()}})
        )
        given = environment(container)
        await asyncio.sleep(self._world.load_of(given) if self._world.load_of else self._world.load)
        await self._world.loads_may_end.wait()
        ending = self._world.load_ending(given)
        if ending is None:
            ending = await asyncio.to_thread(self._converter.loadable, given)
        if ending is None:
            ready = _status(container, "Running", {"running": {"startedAt": now()}}, ready=True)
            await self._api.set_status(PODS, name, ready)
            return
        crashed = _status(container, "Running", {"waiting": {"reason": "CrashLoopBackOff"}})
        crashed["containerStatuses"][0] |= {
            "lastState": {"terminated": _terminated(ending)},
            "restartCount": 1,
        }
        await self._api.set_status(PODS, name, crashed)


def _predictor(pod: Json) -> bool:
    """Of a Revision, or of a Deployment in KServe's Standard mode."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    return REVISION_LABEL in pod["metadata"].get("labels", {}) or "kserve-container" in names


def _terminated(ending: Ending | None) -> Json:
    if ending is None:
        return {"exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now()}
    line = json.dumps({"reason": ending.reason, "message": ending.message}) if ending.reason else ""
    return {
        "exitCode": ending.exit_code,
        "reason": ending.cause,
        "message": line,
        "startedAt": now(),
        "finishedAt": now(),
    }


def _status(container: Json, phase: str, state: Json, ready: bool = False) -> Json:
    number = next(_addresses)
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()},
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now()},
    ]
    return {
        "phase": phase,
        "podIP": f"127.77.{number // 250 % 250}.{number % 250 + 1}",
        "startTime": now(),
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "state": state,
                "lastState": {},
            }
        ],
    }
