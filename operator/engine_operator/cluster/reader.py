"""Reads everything that belongs to an engine: one engine by label, or all of a namespace by a few paged lists.

No watch caches and no indices: at a thousand engines those cost a minute of CPU and half of our memory. What a survey
found is kept as JSON, which takes a tenth of its dictionaries' memory, and is parsed for whoever looks at an engine.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from engine_operator.cluster.autoscaler import refusal
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.facts import job_state, written_at
from engine_operator.cluster.resources import (
    ENGINES,
    EVENTS,
    INFERENCE_SERVICES,
    JOBS,
    PODS,
    REVISIONS,
    SECRETS,
    Json,
    Resource,
)
from engine_operator.cluster.slim import slim
from engine_operator.domain import wire
from engine_operator.domain.names import source_secret_name
from engine_operator.domain.observed import JobPhase, JobState
from engine_operator.errors import ClusterError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineObjects:
    """Everything in the cluster that belongs to one engine, as the API sent it."""

    engine: Json
    service: Json | None = None
    jobs: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    """Predictors' and converters'."""
    revisions: tuple[Json, ...] = ()
    """A survey leaves them out, unless it is asked for them."""

    def fingerprint(self) -> tuple[object, ...]:
        """Changes whenever one of the objects does, revisions aside: those change only with their service."""
        parts = [self.engine, *([self.service] if self.service else []), *self.jobs, *self.pods]
        return tuple((one["metadata"]["uid"], one["metadata"]["resourceVersion"]) for one in parts)


@dataclass(frozen=True)
class Packed:
    """The objects of one engine as JSON."""

    content: bytes
    marks: tuple[object, ...]
    """Their fingerprint."""

    @classmethod
    def of(cls, objects: EngineObjects) -> Self:
        """What `objects` gives back."""
        parts = (objects.engine, objects.service, objects.jobs, objects.pods, objects.revisions)
        return cls(json.dumps(parts, separators=(",", ":")).encode(), objects.fingerprint())

    def objects(self) -> EngineObjects:
        """Parsed anew with each call."""
        engine, service, jobs, pods, revisions = json.loads(self.content)
        return EngineObjects(engine, service, tuple(jobs), tuple(pods), tuple(revisions))


class Shelf(Mapping[str, EngineObjects]):
    """Engines of a namespace by name. Each look at one parses it."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[Resource, list[bytes]]] = {}

    def put(self, resource: Resource, item: Json) -> None:
        """Keep an object of the engine that it is, or that its label names; what belongs to none is none of ours."""
        metadata = item["metadata"]
        if resource is ENGINES:
            parts = self._parts.setdefault(str(metadata["name"]), {})
        else:
            found = self._parts.get(metadata["labels"][wire.LABEL_ENGINE])
            if found is None:
                return
            parts = found
        packed = json.dumps(slim(resource, item), separators=(",", ":")).encode()
        parts.setdefault(resource, []).append(packed)

    def __getitem__(self, name: str) -> EngineObjects:
        parts = self._parts[name]

        def of(resource: Resource) -> tuple[Json, ...]:
            return tuple(json.loads(one) for one in parts.get(resource, ()))

        services = of(INFERENCE_SERVICES)
        return EngineObjects(
            engine=of(ENGINES)[0],
            service=services[-1] if services else None,
            jobs=of(JOBS),
            pods=of(PODS),
            revisions=of(REVISIONS),
        )

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


@dataclass(frozen=True)
class Survey:
    """All TranslationEngines of a namespace, by name, each with what belongs to it."""

    engines: Mapping[str, EngineObjects] = field(default_factory=dict)
    complete: bool = False
    """With everything that a plan needs."""


class ClusterReader:
    """Reads for one process."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def engine(self, namespace: str, name: str) -> EngineObjects | None:
        """One engine with everything; None if there is no such TranslationEngine."""
        found = await self._cluster.find(ObjectRef(ENGINES, namespace, name))
        if found is None:
            return None
        label = f"{wire.LABEL_ENGINE}={name}"
        return EngineObjects(
            engine=found,
            service=await self._cluster.find(ObjectRef(INFERENCE_SERVICES, namespace, name)),
            jobs=await self._all(JOBS, namespace, label),
            pods=await self._all(PODS, namespace, label),
            revisions=await self._all(REVISIONS, namespace, label),
        )

    async def survey(self, namespace: str, revisions: bool = False) -> Survey:
        """All engines: a sleeping engine costs no request of its own. `revisions` completes them, for plans."""
        shelf = Shelf()
        for resource in (ENGINES, INFERENCE_SERVICES, JOBS, PODS, *([REVISIONS] if revisions else [])):
            labels = "" if resource is ENGINES else wire.LABEL_ENGINE
            async for one in self._cluster.list(resource, namespace, labels):
                shelf.put(resource, one)
        return Survey(shelf, complete=revisions)

    async def jobs(self, objects: EngineObjects) -> tuple[JobState, ...]:
        """The conversion Jobs; for one that has not started, also when its source was handed over."""
        states = (job_state(one, objects.pods, None) for one in objects.jobs)
        return tuple([await self._with_source(objects, state) for state in states if state is not None])

    async def refusal(self, pod: Json) -> str | None:
        """Why the cluster's autoscaler brings no node for a pod; None where it says nothing, or may not be asked."""
        metadata = pod["metadata"]
        fields = f"regarding.kind=Pod,regarding.name={metadata['name']}"
        try:
            events = [one async for one in self._cluster.list(EVENTS, metadata["namespace"], fields=fields)]
        except ClusterError as error:
            log.debug("the Events of %s can't be read: %s", metadata["name"], error)
            return None
        return refusal(one for one in events if (one.get("regarding") or {}).get("name") == metadata["name"])

    async def _with_source(self, objects: EngineObjects, state: JobState) -> JobState:
        if state.phase not in (JobPhase.WAITING, JobPhase.NEEDS_SOURCE):
            return state
        namespace = str(objects.engine["metadata"]["namespace"])
        secret = await self._cluster.find(ObjectRef(SECRETS, namespace, source_secret_name(state.name)))
        return replace(state, source_written=written_at(secret) if secret else None)

    async def _all(self, resource: Resource, namespace: str, labels: str) -> tuple[Json, ...]:
        return tuple([one async for one in self._cluster.list(resource, namespace, labels)])
