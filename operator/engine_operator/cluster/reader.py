"""Reads everything that belongs to an engine: one engine by label, or all of a namespace by a few paged lists.

No watch caches and no indices: at a thousand engines those cost a minute of CPU and half of our memory.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
class Survey:
    """All TranslationEngines of a namespace, by name, each with what belongs to it."""

    engines: dict[str, EngineObjects] = field(default_factory=dict)
    complete: bool = False
    """With everything that a plan needs."""

    def attach(self, item: Json, add: Callable[[EngineObjects, Json], EngineObjects]) -> None:
        """Give an object to the engine that its label names; what belongs to none is none of ours."""
        name = item["metadata"]["labels"][wire.LABEL_ENGINE]
        if name in self.engines:
            self.engines[name] = add(self.engines[name], item)


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
        engines = {
            str(one["metadata"]["name"]): EngineObjects(slim(ENGINES, one))
            async for one in self._cluster.list(ENGINES, namespace)
        }
        survey = Survey(engines)
        async for one in self._cluster.list(INFERENCE_SERVICES, namespace, wire.LABEL_ENGINE):
            survey.attach(slim(INFERENCE_SERVICES, one), lambda mine, new: replace(mine, service=new))
        async for one in self._cluster.list(JOBS, namespace, wire.LABEL_ENGINE):
            survey.attach(slim(JOBS, one), lambda mine, new: replace(mine, jobs=(*mine.jobs, new)))
        async for one in self._cluster.list(PODS, namespace, wire.LABEL_ENGINE):
            survey.attach(slim(PODS, one), lambda mine, new: replace(mine, pods=(*mine.pods, new)))
        if revisions:
            async for one in self._cluster.list(REVISIONS, namespace, wire.LABEL_ENGINE):
                survey.attach(
                    slim(REVISIONS, one), lambda mine, new: replace(mine, revisions=(*mine.revisions, new))
                )
            return replace(survey, complete=True)
        return survey

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
