"""What is: the facts that `plan` sees, typed, and the status it keeps.

Gatherers fill these records and decide nothing. Two rules of gathering matter to the decisions: jobs are read before
the manifest (a Job that has succeeded without a manifest is then a fact, not a race), and everything not read is
`UNKNOWN` or None, never "absent".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from engine_operator.domain.capacity import Taken
from engine_operator.domain.engine import Protocol
from engine_operator.domain.keys import ArtifactKey
from engine_operator.domain.mode import DeploymentMode
from engine_operator.domain.serval_facts import Verdict


class Phase(StrEnum):
    """Phases of a target revision, in order; BackingOff lies between attempts."""

    PENDING = "Pending"
    CONVERTING = "Converting"
    CONVERTED = "Converted"
    ROLLING_OUT = "RollingOut"
    SERVING = "Serving"
    BACKING_OFF = "BackingOff"


class Known(StrEnum):
    """Whether something is there."""

    PRESENT = "Present"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


class ConditionStatus(StrEnum):
    """Kubernetes' three values."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Condition:
    """One entry of `status.conditions`."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition: datetime
    observed_generation: int = 0


@dataclass(frozen=True)
class ServingStatus:
    """`status.serving`: what clients follow."""

    revision: int
    url: str
    protocol: Protocol
    model_name: str
    since: datetime
    knative_revision: str
    manifest_sha256: str
    artifact_key: ArtifactKey
    runtime_image: str


@dataclass(frozen=True)
class TargetStatus:
    """`status.target`: the revision on its way."""

    revision: int
    artifact_key: ArtifactKey
    phase: Phase
    attempts: int = 0
    """Tries started in the present stage (converting, or rolling out)."""
    next_retry: datetime | None = None
    """Not before this; None in BackingOff means that no try is left."""
    retry_token: str | None = None


@dataclass(frozen=True)
class Failure:
    """`status.lastFailure`."""

    revision: int
    phase: Phase
    reason: str
    message: str
    at: datetime


@dataclass(frozen=True)
class Wake:
    """One cold start, in seconds by phase: node, pull, python, download, load, warm, and ready for the rest."""

    at: datetime
    """When its pod was created."""
    phases: Mapping[str, float]


@dataclass(frozen=True)
class Swap:
    """`status.lastSwap`: the last time that a new revision took the place of one whose pod had to go first."""

    revision: int
    replaced: int
    """The model revision that served before."""
    at: datetime
    """When its first pod was made."""
    gap_seconds: float
    """From there until it was ready: how long calls were held at most."""


@dataclass(frozen=True)
class Usage:
    """What an engine cost in a month: seconds of predictor pods. `domain.usage` keeps it."""

    month: str
    """`2026-11`."""
    pod_seconds: int
    """Of pods that have ended."""
    running: Mapping[str, datetime] = field(default_factory=dict)
    """Start of each pod that has not."""


@dataclass(frozen=True)
class AppliedStatus:
    """`status.applied`: our last apply of the InferenceService, remembered on our own kind (never on it)."""

    template_hash: str
    owned_hash: str
    """Hash of our manager's `fieldsV1` in the API's answer to that apply."""
    reclaimed: bool = False
    """A field that somebody overwrote was taken back once for this template; the next time a person is asked."""


@dataclass(frozen=True)
class EngineStatus:
    """The whole status of a TranslationEngine."""

    observed_generation: int = 0
    serving: ServingStatus | None = None
    target: TargetStatus | None = None
    last_failure: Failure | None = None
    applied: AppliedStatus | None = None
    cold_starts: tuple[Wake, ...] = ()
    last_swap: Swap | None = None
    usage: Usage | None = None
    warm_until: datetime | None = None
    """While a warm window keeps the engine awake, when it ends."""
    effective: Mapping[str, str] = field(default_factory=dict)
    """Decided settings as people read them (`effective_summary`)."""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class ManifestFact:
    """The manifest of one artifact key."""

    presence: Known
    sha256: str = ""
    """Of the manifest's bytes as stored; empty unless present."""
    attempt: str = ""
    model_bytes: int = 0
    """Size of the converted model; 0 = not known."""
    source_bytes: int = 0
    """Size of what it was converted from; 0 = not known."""


ABSENT_MANIFEST = ManifestFact(Known.ABSENT)
UNKNOWN_MANIFEST = ManifestFact(Known.UNKNOWN)


@dataclass(frozen=True)
class ProcessFailure:
    """How a container ended: from its termination line, or from what Kubernetes says about it."""

    reason: str
    message: str
    exit_code: int | None = None


class JobPhase(StrEnum):
    """Where a conversion Job is."""

    WAITING = "Waiting"
    """No pod is on a node yet."""
    NEEDS_SOURCE = "NeedsSource"
    """Its pod is on a node and its container has not started."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class JobState:
    """One conversion Job of this engine."""

    name: str
    artifact_key: ArtifactKey
    attempt: int
    phase: JobPhase
    created: datetime
    source_written: datetime | None = None
    """When the Secret with the presigned URL was written; None if there is none."""
    failure: ProcessFailure | None = None
    deleting: bool = False
    unschedulable: str | None = None
    """Why its pod has no node, and what it asks for; None if it has one."""


@dataclass(frozen=True)
class RevisionState:
    """A Knative Revision of this engine; model facts are read from its container's environment."""

    name: str
    created: datetime
    model_revision: int
    manifest_sha256: str
    attempt: int
    artifact_key: ArtifactKey | None
    runtime_image: str
    initial_scale: int
    ready: ConditionStatus
    reason: str = ""
    message: str = ""
    uid: str = ""
    held: int | None = None
    """Least number of pods that we asked for on the Revision itself; None if we ask for none."""


@dataclass(frozen=True)
class PodState:
    """A predictor pod."""

    name: str
    knative_revision: str
    created: datetime
    ready: bool
    unschedulable: str | None = None
    """The scheduler's message while the pod has no node."""
    refused: str | None = None
    """The cluster autoscaler's words, if it says that no node will come."""
    failure: ProcessFailure | None = None
    """Present or last termination of the predictor's container, if it ended by failure."""
    terminating: bool = False
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    """When the predictor's container started: its image was there by then."""
    ready_at: datetime | None = None
    address: str = ""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the phases inside the process, as it tells them; empty where it was not asked, or is out of reach."""


@dataclass(frozen=True)
class ServiceState:
    """The InferenceService."""

    url: str
    deleting: bool
    owned_hash: str
    """Hash of our manager's `fieldsV1`, "" if we own nothing."""
    model_revision: int
    manifest_sha256: str
    attempt: int
    artifact_key: ArtifactKey | None
    runtime_image: str
    initial_scale: int
    all_traffic: str | None
    """Name of the Knative revision with 100 % of the traffic."""
    routed: bool = False
    """Every gateway knows that traffic."""
    ready: ConditionStatus = ConditionStatus.UNKNOWN
    reason: str = ""
    message: str = ""
    latest_created: str | None = None
    latest_ready: str | None = None
    holds_deletion: tuple[str, ...] = ()
    """Finalizers, told while the service is deleting."""
    mode: DeploymentMode | None = None
    """How KServe runs it; None before its controller has seen it."""
    may_sleep: bool = False
    """Its least number of pods is 0."""


@dataclass(frozen=True)
class StoredAttempt:
    """One attempt folder below an artifact key."""

    name: str
    newest: datetime
    """Time of its newest object."""


@dataclass(frozen=True)
class StoredArtifact:
    """What a store's listing says about one artifact key."""

    key: ArtifactKey
    has_manifest: bool
    attempts: tuple[StoredAttempt, ...]
    manifest_attempt: str | None = None
    """Attempt that the manifest names; None if it was not read or does not exist."""


@dataclass(frozen=True)
class KnativeSettings:
    """Cluster settings that decide what is possible; None = not readable, Knative's default is assumed."""

    allow_zero_initial_scale: bool | None = None
    pod_is_always_schedulable: bool | None = None
    max_revision_timeout_seconds: int | None = None
    domain_template: str | None = None
    response_start_seconds: int | None = None
    """What a revision gets that names none, as KServe's always do; 0: nothing beyond its time-out."""


@dataclass(frozen=True)
class Observed:
    """Everything that `plan` sees of one engine."""

    status: EngineStatus
    manifest: ManifestFact = UNKNOWN_MANIFEST
    """Of the wanted artifact key."""
    serving_manifest: ManifestFact = UNKNOWN_MANIFEST
    """Of `status.serving.artifact_key`; the same record where the keys are equal."""
    jobs: tuple[JobState, ...] = ()
    service: ServiceState | None = None
    revisions: tuple[RevisionState, ...] = ()
    pods: tuple[PodState, ...] = ()
    stored: tuple[StoredArtifact, ...] | None = None
    """Listing of the engine's own folder; None when this round did not list."""
    storage: Verdict | None = None
    """Why the artifact store cannot be used; None if it can."""
    source_problem: Verdict | None = None
    """Why Serval could not be asked; None if it could."""
    deleting: bool = False
    """The TranslationEngine itself is being deleted."""
    busy_rollouts: int = 0
    """Other engines that are rolling out right now."""
    busy_conversions: int = 0
    """Other engines whose conversion Jobs run right now."""
    ahead_rollouts: int = 0
    """Engines of a higher priority that wait for one of the same places."""
    ahead_conversions: int = 0
    taken: Taken = field(default_factory=Taken)
    """Pods and GPUs of the other engines of the same source."""
    kept: bool = False
    """It has a place in its source's warm budget."""
    knative: KnativeSettings = KnativeSettings()
