"""Gathers what is wanted and what is, for one engine: input of the plan.

Decides nothing. Two rules of gathering matter to the decisions: the cluster is read before the store (a Job that has
succeeded without a manifest is then a fact, not a race), and what could not be read is unknown, never absent.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine_operator.cluster.facts import loaded_revision, pod_state, revision_state, service_state
from engine_operator.cluster.phases import PhaseReader
from engine_operator.cluster.reader import ClusterReader, EngineObjects
from engine_operator.cluster.resources import Json
from engine_operator.cluster.standard import in_standard_mode
from engine_operator.context import SourceContext, StoreState
from engine_operator.domain.capacity import Quota
from engine_operator.domain.desired import Desired, wanted_revision
from engine_operator.domain.effective import Defaults, bounded, effective
from engine_operator.domain.engine import EngineSpec, Languages, ModelSpec, ObjectStore, SourceRef, SourceSpec
from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.domain.mode import DeploymentMode
from engine_operator.domain.observed import (
    ABSENT_MANIFEST,
    UNKNOWN_MANIFEST,
    EngineStatus,
    KnativeSettings,
    Known,
    ManifestFact,
    Observed,
    PodState,
    StoredArtifact,
)
from engine_operator.domain.serval_facts import Existence, servable
from engine_operator.domain.wakes import wake_to_tell
from engine_operator.errors import ManifestInvalid, StoreError
from engine_operator.store.artifacts import ArtifactStore

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """What an engine shares with others: its store, and its source's last sweep (None for a person's model)."""

    storage: StoreState
    context: SourceContext | None
    defaults: Defaults


def desired_of(engine: EngineSpec, status: EngineStatus, around: Surroundings) -> Desired:
    """What people and Serval want of an engine."""
    storage, context, defaults = around.storage, around.context, around.defaults
    quota = context.source.quota if context else Quota()
    decided = bounded(effective(engine, context.source if context else None, defaults), quota)
    plain = Desired(engine, decided, storage.place, storage.installation, quota=quota)
    if isinstance(engine.origin, ModelSpec):
        return replace(
            plain,
            existence=Existence.PRESENT,
            model_revision=engine.origin.revision,
            model_source=engine.origin.store,
        )
    if context is None:
        return replace(plain, verdict=storage.problem)
    said = context.engines.get(engine.engine_id)
    revision = said.model_revision if said else None
    told = replace(
        plain,
        existence=context.existence.get(engine.engine_id, Existence.UNKNOWN),
        model_revision=revision,
        verdict=servable(said, context.source.selector) if said else None,
        tags=Languages(said.source_language, said.target_language) if said else Languages(),
    )
    return replace(told, model_source=archive(context.source, engine.origin, wanted_revision(told, status)))


def archive(source: SourceSpec, origin: SourceRef, revision: int | None) -> ObjectStore | None:
    """The exact archive of a revision in Serval's bucket; None where Serval hands out a URL instead."""
    store = source.model_store.store
    if store is None or revision is None:
        return None
    return replace(store, uri=f"{store.uri.rstrip('/')}/models/{origin.engine_id}_{revision}.tar.gz")


@dataclass(frozen=True)
class _Seen:
    fact: ManifestFact
    at: float


class ManifestBook:
    """Manifests that were seen lately. One that is there is believed for a while; an absent one is asked for again."""

    def __init__(self, trust: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._clock = clock
        self._seen: dict[tuple[str, ArtifactKey], _Seen] = {}

    async def fact(self, store: ArtifactStore | None, key: ArtifactKey | None) -> ManifestFact:
        """What is known of one manifest; unknown where the store can't be asked."""
        if store is None or key is None:
            return UNKNOWN_MANIFEST
        place = (store.installation, key)
        known = self._seen.get(place)
        if known is not None and self._clock() - known.at < self._trust:
            return known.fact
        try:
            found = await store.fact(key)
        except ManifestInvalid as error:
            log.warning("a manifest is of no use and counts as absent: %s", error)
            found = ABSENT_MANIFEST
        except StoreError as error:
            log.warning("a manifest could not be read: %s", error)
            return UNKNOWN_MANIFEST
        self._seen.pop(place, None)
        if found.presence is Known.PRESENT:
            self._seen[place] = _Seen(found, self._clock())
        return found

    def forget(self, engine: EngineId) -> None:
        """Drop what is known of an engine's manifests."""
        self._seen = {place: seen for place, seen in self._seen.items() if place[1].engine_id != engine}


class Observer:
    """Gathers for one process."""

    def __init__(
        self, reader: ClusterReader, manifests: ManifestBook, phases: PhaseReader | None = None
    ) -> None:
        """Without `phases` no pod is asked: cold starts are told by the pods' conditions alone."""
        self._reader = reader
        self._manifests = manifests
        self._phases = phases

    async def observed(
        self, objects: EngineObjects, desired: Desired, status: EngineStatus, around: Surroundings
    ) -> Observed:
        """Everything that the plan sees, except what other engines do."""
        storage, context = around.storage, around.context
        jobs = await self._reader.jobs(objects)
        wanted = wanted_revision(desired, status)
        key = desired.key(wanted) if wanted else None
        serving = status.serving.artifact_key if status.serving else None
        manifest = await self._manifests.fact(storage.store, key)
        states = [await self._pod(one) for one in objects.pods]
        pods = tuple(state for state in states if state.knative_revision)
        service = service_state(objects.service) if objects.service else None
        revisions = tuple(revision_state(one) for one in objects.revisions)
        if service is not None and service.mode is DeploymentMode.STANDARD:
            loaded = (loaded_revision(one) for one in objects.pods)
            service, revisions = in_standard_mode(service, filter(None, loaded), pods)
        observed = Observed(
            status=status,
            manifest=manifest,
            serving_manifest=manifest
            if serving == key
            else await self._manifests.fact(storage.store, serving),
            jobs=jobs,
            service=service,
            revisions=revisions,
            pods=pods,
            storage=storage.problem,
            source_problem=context.problem if context else None,
            deleting="deletionTimestamp" in objects.engine["metadata"],
            kept=context is not None and desired.engine.name in context.kept,
            knative=context.knative if context else KnativeSettings(),
        )
        return await self._with_phases(observed)

    async def _pod(self, item: Json) -> PodState:
        """A pod; one without a node with what the cluster's autoscaler says of it."""
        state = pod_state(item)
        if state.unschedulable is None or not state.knative_revision:
            return state
        return replace(state, refused=await self._reader.refusal(item))

    async def _with_phases(self, observed: Observed) -> Observed:
        """Ask the pod that has just ended a wake, once: the answer goes into the status with the wake."""
        pod, serving = wake_to_tell(observed.status, observed), observed.status.serving
        if self._phases is None or pod is None or serving is None or not pod.address:
            return observed
        told = replace(pod, phases=await self._phases.ask(pod.address, serving.model_name))
        return replace(observed, pods=tuple(told if one is pod else one for one in observed.pods))

    async def stored(self, storage: StoreState, engine: EngineId) -> tuple[StoredArtifact, ...] | None:
        """The engine's folder; None if it could not be listed."""
        if storage.store is None:
            return None
        try:
            return await storage.store.stored(engine)
        except StoreError as error:
            log.warning("the artifacts of %s could not be listed: %s", engine, error)
            return None
