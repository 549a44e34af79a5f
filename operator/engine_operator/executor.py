"""Carries actions out, one after the other, and knows nothing else.

It never asks whether an action is wise: repeating any of them is harmless, and a plan is made of what is. The first
failure ends the list, since what follows may rest on it; only what nothing rests on (garbage, Events) may fail alone.
Secrets are resolved anew for each action.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine_operator import metrics
from engine_operator.cluster.builders.engine import translation_engine
from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.cluster.builders.jobs import conversion_job
from engine_operator.cluster.builders.secrets import source_secret
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.engine_status import write_engine_status
from engine_operator.cluster.events import EventRecorder, Note
from engine_operator.cluster.facts import owned_hash
from engine_operator.cluster.reclaim import reclaim
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, JOBS, REVISIONS, SECRETS, Json
from engine_operator.domain import reasons, wire
from engine_operator.domain.actions import (
    Action,
    ApplyEngine,
    ApplyInferenceService,
    CollectArtifacts,
    DeleteEngine,
    DeleteInferenceService,
    DeleteJob,
    DeleteRevision,
    EmitEvent,
    EngineRef,
    EventType,
    HoldRevision,
    RefreshSourceUrl,
    StartConversion,
    WriteStatus,
)
from engine_operator.domain.observed import AppliedStatus
from engine_operator.errors import (
    AlreadyExists,
    Conflict,
    LeaseLost,
    ModelSuperseded,
    ModelUnavailable,
    NotFound,
    OperatorError,
    Outdated,
    ServalDeclines,
    ServalLacks,
    ServalMisbehaved,
)
from engine_operator.serval.client import ServalClient
from engine_operator.store.artifacts import ArtifactStore

log = logging.getLogger(__name__)

ALONE = (CollectArtifacts, DeleteRevision, EmitEvent, HoldRevision)
"""Actions that nothing after them rests on: their failure is told, and the list goes on."""

QUIET = (WriteStatus, EmitEvent)
"""Actions that tell; only those that do are logged."""


class Resolver(Protocol):
    """Gives the executor what an action needs from outside the cluster, with credentials as they are now."""

    async def serval(self) -> ServalClient:
        """A client of the Serval that the engines come from. Raises OperatorError."""

    async def store(self) -> ArtifactStore:
        """The artifact store of the engines. Raises OperatorError."""


@dataclass(frozen=True)
class Outcome:
    """What became of a list of actions."""

    done: int
    failed: Action | None = None
    error: OperatorError | None = None
    status: Json | None = None
    """The TranslationEngine as the API answered the last WriteStatus."""


class Executor:
    """Carries out the actions of one source's engines."""

    def __init__(self, cluster: ClusterClient, events: EventRecorder, resolver: Resolver) -> None:
        self._cluster = cluster
        self._events = events
        self._resolver = resolver
        self._applied: AppliedStatus | None = None
        self._answer: Json | None = None
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[None]]] = {
            StartConversion: self._start_conversion,
            RefreshSourceUrl: self._refresh_source_url,
            DeleteJob: self._delete_job,
            ApplyInferenceService: self._apply_service,
            DeleteInferenceService: self._delete_service,
            HoldRevision: self._hold_revision,
            DeleteRevision: self._delete_revision,
            CollectArtifacts: self._collect,
            WriteStatus: self._write_status,
            EmitEvent: self._emit,
            ApplyEngine: self._apply_engine,
            DeleteEngine: self._delete_engine,
        }

    async def run(self, actions: Sequence[Action]) -> Outcome:
        """Carry out the actions of one engine or one source, in order."""
        self._applied = self._answer = None
        for done, action in enumerate(actions):
            name = type(action).__name__
            try:
                await self._handlers[type(action)](action)
            except OperatorError as error:
                metrics.ACTION_FAILURES.labels(name, error.reason).inc()
                if not isinstance(action, ALONE) or isinstance(error, LeaseLost):
                    return Outcome(done, action, error, self._answer)
                log.warning("%s failed, the rest goes on: %s", name, error)
                continue
            metrics.ACTIONS.labels(name).inc()
            if not isinstance(action, QUIET):
                log.info("%s", summary(action))
        return Outcome(len(actions), status=self._answer)

    async def _start_conversion(self, action: StartConversion) -> None:
        try:
            await self._cluster.create(JOBS, conversion_job(action.plan))
        except AlreadyExists:
            return  # Of this very attempt: its name is a hash of all that makes it.

    async def _refresh_source_url(self, action: RefreshSourceUrl) -> None:
        job = await self._cluster.find(ObjectRef(JOBS, action.engine.namespace, action.job))
        if job is None:
            return
        try:
            found = await (await self._resolver.serval()).model_download(action.engine_id)
        except (ServalMisbehaved, ServalDeclines, ServalLacks) as error:
            raise ModelUnavailable(
                f"no archive of revision {action.revision} of {action.engine_id}: {error}"
            ) from error
        if found.model_revision != action.revision:
            raise ModelSuperseded(
                f"{action.engine_id}: Serval offers revision {found.model_revision}, wanted is {action.revision}"
            )
        await self._cluster.apply(
            SECRETS, source_secret(action.engine, action.job, job["metadata"]["uid"], found.url)
        )

    async def _delete_job(self, action: DeleteJob) -> None:
        await self._cluster.delete(ObjectRef(JOBS, action.engine.namespace, action.job))

    async def _apply_service(self, action: ApplyInferenceService) -> None:
        body = inference_service(action.template)
        try:
            answer = await self._cluster.apply(INFERENCE_SERVICES, body)
        except Conflict:
            metrics.FIELD_CONFLICTS.inc()
            if not action.reclaim:
                raise
            answer = await reclaim(self._cluster, INFERENCE_SERVICES, body)
        self._applied = AppliedStatus(action.template_hash, owned_hash(answer), action.reclaim)

    async def _delete_service(self, action: DeleteInferenceService) -> None:
        ref = ObjectRef(INFERENCE_SERVICES, action.engine.namespace, action.engine.name)
        await self._cluster.delete(ref, propagation="Foreground")

    async def _hold_revision(self, action: HoldRevision) -> None:
        annotations = {} if action.replicas is None else {wire.ANNOTATION_MIN_SCALE: str(action.replicas)}
        metadata = {"name": action.revision, "namespace": action.engine.namespace, "uid": action.uid}
        try:
            # Forced, as nothing else is: KServe writes this annotation into every Revision, and never again.
            await self._cluster.apply(
                REVISIONS, {"metadata": {**metadata, "annotations": annotations}}, force=True
            )
        except (NotFound, Outdated):
            return  # Knative has removed it meanwhile, and its pods with it.

    async def _delete_revision(self, action: DeleteRevision) -> None:
        ref = ObjectRef(REVISIONS, action.engine.namespace, action.revision, action.uid)
        try:
            await self._cluster.delete(ref)
        except Outdated:
            return  # Another one of its name: the service was made again meanwhile.

    async def _collect(self, action: CollectArtifacts) -> None:
        store = await self._resolver.store()
        for folder in action.folders:
            await store.collect(action.engine_id, folder)

    async def _write_status(self, action: WriteStatus) -> None:
        status = replace(action.status, applied=self._applied) if self._applied else action.status
        engine = action.engine
        body = {
            "metadata": {"name": engine.name, "namespace": engine.namespace, "uid": engine.uid},
            "status": write_engine_status(status),
        }
        try:
            self._answer = await self._cluster.apply(ENGINES, body, subresource="status")
        except NotFound:
            return  # Deleted meanwhile; nobody is left to be told.

    async def _emit(self, action: EmitEvent) -> None:
        await self._events.tell(note(action.engine, action.type, action.reason, action.message))

    async def _apply_engine(self, action: ApplyEngine) -> None:
        await self._cluster.apply(ENGINES, translation_engine(action))

    async def _delete_engine(self, action: DeleteEngine) -> None:
        engine = action.engine
        await self._events.tell(note(engine, EventType.NORMAL, reasons.ENGINE_GONE, action.why))
        await self._cluster.delete(ObjectRef(ENGINES, engine.namespace, engine.name, engine.uid))


def summary(action: Action) -> str:
    """An action in one line, as logs and dry runs show it: its name, and what it is about."""
    match action:
        case StartConversion(plan=plan):
            about = f"engine={plan.engine.name} revision={plan.key.revision} job={plan.job}"
        case ApplyInferenceService(template=template):
            about = (
                f"engine={template.engine.name} revision={template.model_revision} attempt={template.attempt}"
            )
        case ApplyEngine(name=name, engine_id=engine_id):
            about = f"engine={name} id={engine_id}"
        case CollectArtifacts(engine_id=engine_id, folders=folders):
            about = f"id={engine_id} folders={', '.join(folders)}"
        case HoldRevision(revision=name, replicas=replicas):
            about = f"revision={name} pods={replicas or 'as called'}"
        case DeleteRevision(revision=name, why=why):
            about = f"revision={name} why={why!r}"
        case RefreshSourceUrl(job=job, revision=revision):
            about = f"job={job} revision={revision}"
        case DeleteJob(job=job, why=why):
            about = f"job={job} why={why!r}"
        case DeleteInferenceService(engine=engine, why=why) | DeleteEngine(engine=engine, why=why):
            about = f"engine={engine.name} why={why!r}"
        case EmitEvent(engine=engine, reason=reason, message=message):
            about = f"engine={engine.name} {reason}: {message}"
        case WriteStatus(engine=engine, status=status):
            target = (
                f"revision {status.target.revision} {status.target.phase.value}"
                if status.target
                else "no target"
            )
            about = f"engine={engine.name} ({target})"
    return f"{type(action).__name__} {about}"


def note(engine: EngineRef, kind: EventType, reason: str, message: str) -> Note:
    """Something to tell about a TranslationEngine."""
    return Note(ENGINES, engine.namespace, engine.name, engine.uid, kind.value, reason, message)
