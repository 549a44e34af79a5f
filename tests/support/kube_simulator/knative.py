"""KServe's and Knative's controllers: a Revision per template, a pod per awake Revision, traffic to what is ready.

As the real ones: any change of spec, labels or annotations of an InferenceService makes a new Revision; traffic moves
only to a Revision that is ready; while a new one fails the InferenceService is not Ready although the old one answers;
a Revision with initial scale 0 is ready without having tried; a Revision without traffic loses its pod; one with a
least scale keeps it, also if that annotation comes later.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.kube_simulator.api import PODS, REVISIONS, SERVICES, Api, Json
from tests.support.kube_simulator.kubelet import REVISION_LABEL, now
from tests.support.kube_simulator.standard import in_standard_mode
from tests.support.kube_simulator.world import World

TEMPLATE = "simulator/template"
GENERATION = "serving.knative.dev/configurationGeneration"
INITIAL_SCALE = "autoscaling.knative.dev/initial-scale"
MIN_SCALE = "autoscaling.knative.dev/min-scale"


@dataclass
class _Life:
    """What a Revision has been through."""

    ready: bool = False
    failed: Json | None = None
    """The condition Ready with which it failed."""
    used: float = field(default_factory=time.monotonic)
    wanted: bool = False
    """Somebody calls, or its first pod is on its way."""


class Knative:
    """Both controllers, for one namespace."""

    def __init__(self, api: Api, world: World) -> None:
        self._api = api
        self._world = world
        self._lives: dict[str, _Life] = {}
        self._told: dict[str, Json] = {}
        self._templates: dict[str, tuple[str, str]] = {}
        self.created: list[str] = []
        """Every Revision that was ever made, in order: what A9 counts."""

    def call(self, revision: str) -> None:
        """Somebody calls a Revision: it wakes."""
        life = self._lives[revision]
        life.wanted, life.used, life.failed = True, time.monotonic(), None

    async def tick(self, services: list[Json], revisions: list[Json], pods: list[Json]) -> None:
        """One look at everything."""
        of_service, of_revision = _grouped(revisions, _service_of), _grouped(pods, _revision_of)
        for service in services:
            if "deletionTimestamp" in service["metadata"] or in_standard_mode(service):
                continue
            name = service["metadata"]["name"]
            mine = sorted(of_service.get(name, []), key=_generation)
            if not mine or mine[-1]["metadata"]["annotations"][TEMPLATE] != self._template(service):
                await self._new_revision(service, mine)
                continue
            for revision in mine:
                await self._run(revision, mine, of_revision.get(revision["metadata"]["name"], []))
            await self._tell_service(service, mine)

    async def _new_revision(self, service: Json, mine: list[Json]) -> None:
        generation = _generation(mine[-1]) + 1 if mine else 1
        metadata = service["metadata"]
        name = f"{metadata['name']}-predictor-{generation:05d}"
        labels = {
            **metadata.get("labels", {}),
            "serving.kserve.io/inferenceservice": metadata["name"],
            "serving.knative.dev/service": f"{metadata['name']}-predictor",
            GENERATION: str(generation),
        }
        predictor = service["spec"]["predictor"]
        body = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Revision",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {
                    **metadata.get("annotations", {}),
                    # KServe writes it whatever it is: whoever applies another value meets this claim.
                    MIN_SCALE: str(predictor.get("minReplicas", 1)),
                    TEMPLATE: template_hash(service),
                },
                "ownerReferences": [_owner(service)],
            },
            "spec": {
                "containers": predictor["containers"],
                "volumes": predictor.get("volumes", []),
                "containerConcurrency": predictor.get("containerConcurrency", 0),
            },
        }
        if await self._api.create(REVISIONS, body) is not None:
            self.created.append(name)
            started = metadata.get("annotations", {}).get(INITIAL_SCALE, "1") != "0"
            self._lives[name] = _Life(wanted=started)

    def _template(self, service: Json) -> str:
        """Hash of a service's template, reckoned anew only when the service has changed."""
        metadata = service["metadata"]
        known = self._templates.get(metadata["uid"])
        if known is None or known[0] != metadata["resourceVersion"]:
            known = metadata["resourceVersion"], template_hash(service)
            self._templates[metadata["uid"]] = known
        return known[1]

    async def _run(self, revision: Json, mine: list[Json], own: list[Json]) -> None:
        name = revision["metadata"]["name"]
        life = self._lives.setdefault(name, _Life())
        alive = [pod for pod in own if "deletionTimestamp" not in pod["metadata"]]
        if revision["metadata"]["annotations"].get(INITIAL_SCALE) == "0" and life.failed is None:
            life.ready = True
        for pod in alive:
            self._learn(life, pod)
        if self._held(revision, mine):
            life.wanted, life.used = True, time.monotonic()
        if life.wanted and not alive and life.failed is None:
            await self._api.create(PODS, _pod(revision, len(self.created)))
        elif alive and self._sleeps(revision, life, mine):
            life.wanted = False
            await self._api.delete(PODS, alive[0]["metadata"]["name"])
        await self._tell_revision(name, life, bool(alive))

    def _learn(self, life: _Life, pod: Json) -> None:
        status = pod["status"]
        conditions = {one["type"]: one for one in status.get("conditions", [])}
        if conditions.get("Ready", {}).get("status") == "True":
            life.ready, life.failed = True, None
            return
        if conditions.get("PodScheduled", {}).get("status") == "False" and not life.ready:
            life.failed = {"reason": "Unschedulable", "message": conditions["PodScheduled"]["message"]}
            return
        if life.failed is not None and life.failed["reason"] == "Unschedulable":
            life.failed = None
        containers: list[Json] = status.get("containerStatuses") or [{}]
        ended = containers[0].get("lastState", {}).get("terminated")
        if ended:
            code = ended["exitCode"]
            life.failed = {
                "reason": f"ExitCode{code}",
                "message": f"Container failed with: {ended['message']}",
            }

    def _sleeps(self, revision: Json, life: _Life, mine: list[Json]) -> bool:
        serving = self._serving(mine)
        newest = mine[-1]["metadata"]["name"]
        name = revision["metadata"]["name"]
        if serving is not None and name not in (serving, newest):
            return time.monotonic() - life.used > self._world.linger
        return life.ready and time.monotonic() - life.used > self._world.idle

    def _held(self, revision: Json, mine: list[Json]) -> bool:
        """Whether the autoscaler may not go to zero: a least scale counts while traffic can reach the Revision."""
        reachable = revision["metadata"]["name"] in (self._serving(mine), mine[-1]["metadata"]["name"])
        return reachable and revision["metadata"]["annotations"].get(MIN_SCALE, "0") != "0"

    def _serving(self, mine: list[Json]) -> str | None:
        """The newest Revision that has been ready: traffic never goes back by itself."""
        names = [one["metadata"]["name"] for one in mine]
        return next((name for name in reversed(names) if self._lives.setdefault(name, _Life()).ready), None)

    async def _tell_revision(self, name: str, life: _Life, awake: bool) -> None:
        if life.failed is not None:
            ready = {"status": "False", **life.failed}
        else:
            ready = {"status": "True" if life.ready else "Unknown"}
        active = {"status": "True"} if awake else {"status": "False", "reason": "NoTraffic"}
        await self._tell(
            REVISIONS, name, {"conditions": [{"type": "Ready", **ready}, {"type": "Active", **active}]}
        )

    async def _tell_service(self, service: Json, mine: list[Json]) -> None:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        newest, serving = mine[-1]["metadata"]["name"], self._serving(mine)
        life = self._lives[newest]
        if life.failed is not None:
            ready = {"status": "False", "reason": "RevisionFailed", "message": life.failed["message"]}
        else:
            ready = {"status": "True" if serving == newest else "Unknown"}
        predictor: Json = {"latestCreatedRevision": newest}
        if serving is not None:
            predictor |= {
                "latestReadyRevision": serving,
                "latestRolledoutRevision": serving,
                "traffic": [{"revisionName": serving, "percent": 100, "latestRevision": serving == newest}],
            }
        host = f"{name}-predictor.{namespace}.svc.cluster.local"
        conditions = [{"type": kind, **ready} for kind in ("PredictorReady", "Ready")]
        status: Json = {"conditions": conditions, "components": {"predictor": predictor}}
        if serving is not None:
            status |= {"url": f"http://{host}", "address": {"url": f"http://{host}"}}
        await self._tell(SERVICES, name, status)

    async def _tell(self, kind: str, name: str, status: Json) -> None:
        """Write a status if it is another one than we wrote last."""
        if self._told.get(f"{kind}/{name}") == status:
            return
        self._told[f"{kind}/{name}"] = status
        stamped = {
            **status,
            "conditions": [{**one, "lastTransitionTime": now()} for one in status["conditions"]],
        }
        await self._api.set_status(kind, name, stamped)


def template_hash(service: Json) -> str:
    """Of everything that KServe copies into the revision template."""
    metadata = service["metadata"]
    copied = [service["spec"], metadata.get("annotations"), metadata.get("labels")]
    return hashlib.sha256(json.dumps(copied, sort_keys=True).encode()).hexdigest()[:16]


def _generation(revision: Json) -> int:
    return int(revision["metadata"]["labels"][GENERATION])


def _service_of(revision: Json) -> str | None:
    name: str | None = revision["metadata"].get("labels", {}).get("serving.kserve.io/inferenceservice")
    return name


def _revision_of(pod: Json) -> str | None:
    name: str | None = pod["metadata"].get("labels", {}).get(REVISION_LABEL)
    return name


def _grouped(items: list[Json], name_of: Callable[[Json], str | None]) -> dict[str, list[Json]]:
    """Items by what they belong to, so that a look costs what there is, not its square."""
    found: dict[str, list[Json]] = {}
    for item in items:
        if (name := name_of(item)) is not None:
            found.setdefault(name, []).append(item)
    return found


def _owner(item: Json) -> Json:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(revision: Json, number: int) -> Json:
    metadata = revision["metadata"]
    containers = [
        {key: one[key] for key in ("name", "image", "args", "env") if key in one}
        for one in revision["spec"]["containers"]
    ]
    owner = _owner({**revision, "apiVersion": "serving.knative.dev/v1", "kind": "Revision"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{metadata['name']}-deployment-",
            "labels": {**metadata["labels"], REVISION_LABEL: metadata["name"]},
            "ownerReferences": [owner],
        },
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 1},
    }
