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
from tests.support.kube_simulator.kserve import TRUE, Memory, Told, status_of
from tests.support.kube_simulator.kubelet import REVISION_LABEL, now
from tests.support.kube_simulator.standard import in_standard_mode
from tests.support.kube_simulator.world import World
from tests.support.waiting import eventually

TEMPLATE = "simulator/template"
PATIENCE = 300.0
"""Seconds that the activator holds a call."""
UNSCHEDULABLE = "Unschedulable"
GENERATION = "serving.knative.dev/configurationGeneration"
INITIAL_SCALE = "autoscaling.knative.dev/initial-scale"
MIN_SCALE = "autoscaling.knative.dev/min-scale"


@dataclass
class _Life:
    """What a Revision has been through."""

    ready: bool = False
    """It was once; since then Ready says otherwise only if it failed."""
    failed: Told | None = None
    """The condition Ready with which it failed."""
    crashed: Told | None = None
    """What Ready will say once its pod is gone."""
    up: bool = False
    """A pod of it is ready."""
    looks: int = 0
    held: int = 0
    """Calls that wait for a pod: they count as traffic."""
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
        self._memories: dict[str, Memory] = {}
        self._named: dict[str, Memory] = {}
        self._templates: dict[str, tuple[str, str]] = {}
        self.created: list[str] = []
        """Every Revision that was ever made, in order: what A9 counts."""

    def call(self, revision: str) -> None:
        """Somebody calls a Revision: it wakes."""
        life = self._lives[revision]
        life.wanted, life.used, life.failed = True, time.monotonic(), None

    async def ask(self, service: str, tag: str = "") -> str:
        """One call to a service, or to the host of a tag: the Revision that answers, once it can.

        As the activator does, it holds on to the Revision that it was sent to. Raises LookupError for an unknown host.
        """
        memory = self._named.get(service)
        revision = memory.host(tag) if memory else None
        if revision is None:
            raise LookupError(f"no host {tag or 'of its own'} for {service}")
        self.call(revision)
        life = self._lives[revision]
        life.held += 1
        try:
            await eventually(lambda: life.up, timeout=PATIENCE)
        finally:
            life.held -= 1
        life.used = time.monotonic()
        return revision

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
            await self._tell_service(service, mine, of_revision.get(mine[-1]["metadata"]["name"], []))

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
        life.looks += 1
        if _starts_asleep(revision) and life.looks > 2:
            life.ready = True
        was_up, life.up = life.up, False
        for pod in alive:
            self._learn(life, pod)
        if not alive and life.crashed is not None:
            life.failed, life.crashed = life.crashed, None
        if life.up and not was_up:
            life.used = time.monotonic()
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
            life.ready, life.up, life.failed, life.crashed = True, True, None, None
            return
        if conditions.get("PodScheduled", {}).get("status") == "False":
            if not self._world.always_schedulable:
                life.failed = Told("False", UNSCHEDULABLE)
            return
        if life.failed is not None and life.failed.reason == UNSCHEDULABLE:
            life.failed = None
        containers: list[Json] = status.get("containerStatuses") or [{}]
        ended = containers[0].get("lastState", {}).get("terminated")
        if ended:
            told = Told("False", f"ExitCode{ended['exitCode']}")
            # Of a Revision that counts as ready, Knative notices a crash only when its Deployment changes.
            life.crashed, life.failed = (told, None) if life.ready else (None, told)

    def _sleeps(self, revision: Json, life: _Life, mine: list[Json]) -> bool:
        name, quiet = revision["metadata"]["name"], time.monotonic() - life.used
        if life.held:
            return False
        if name in self._routed(mine):
            return life.ready and quiet > self._world.idle
        # The newest one is waited for as long as it has not been ready.
        return (life.ready or name != mine[-1]["metadata"]["name"]) and quiet > self._world.linger

    def _held(self, revision: Json, mine: list[Json]) -> bool:
        """Whether the autoscaler may not go to zero: a least scale counts while traffic can reach the Revision."""
        reachable = revision["metadata"]["name"] in {*self._routed(mine), mine[-1]["metadata"]["name"]}
        return reachable and revision["metadata"]["annotations"].get(MIN_SCALE, "0") != "0"

    def _routed(self, mine: list[Json]) -> set[str]:
        """The Revisions that have traffic; the newest one before any had."""
        memory = self._named.get(_service_of(mine[-1]) or "")
        return (memory.routed() if memory else set()) or {mine[-1]["metadata"]["name"]}

    async def _tell_revision(self, name: str, life: _Life, awake: bool) -> None:
        told = [self._ready(name).condition("Ready"), _active(life, awake).condition("Active")]
        await self._tell(REVISIONS, name, {"conditions": told})

    def _ready(self, name: str) -> Told:
        life = self._lives[name]
        if life.failed is not None:
            return life.failed
        if life.ready:
            return TRUE
        return Told("Unknown", "ResolvingDigests" if life.looks <= 1 else "Deploying")

    async def _tell_service(self, service: Json, mine: list[Json], pods: list[Json]) -> None:
        name, newest = service["metadata"]["name"], mine[-1]["metadata"]["name"]
        memory = self._memories.setdefault(service["metadata"]["uid"], Memory())
        self._named[name] = memory
        status = status_of(service, memory, newest, self._ready, pods)
        if url := status.get("url"):
            status["address"] = {"url": url}
        await self._tell(SERVICES, name, status)

    async def _tell(self, kind: str, name: str, status: Json) -> None:
        """Write a status if it is another one than we wrote last. One that did not arrive is written again."""
        if self._told.get(f"{kind}/{name}") == status:
            return
        stamped = {
            **status,
            "conditions": [{**one, "lastTransitionTime": now()} for one in status["conditions"]],
        }
        if await self._api.set_status(kind, name, stamped):
            self._told[f"{kind}/{name}"] = status


def _starts_asleep(revision: Json) -> bool:
    asleep: bool = revision["metadata"]["annotations"].get(INITIAL_SCALE) == "0"
    return asleep


def _active(life: _Life, awake: bool) -> Told:
    if life.up:
        return TRUE
    if life.looks <= 1:
        return Told("Unknown", "Deploying")
    return Told("Unknown", "Queued") if awake or life.wanted else Told("False", "NoTraffic")


def template_hash(service: Json) -> str:
    """Of everything that KServe copies into the revision template."""
    metadata = service["metadata"]
    predictor = {
        key: value for key, value in service["spec"]["predictor"].items() if key != "canaryTrafficPercent"
    }
    copied = [predictor, metadata.get("annotations"), metadata.get("labels")]
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
        {key: one[key] for key in ("name", "image", "args", "env", "securityContext") if key in one}
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
