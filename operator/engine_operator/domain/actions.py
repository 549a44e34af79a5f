"""What can be done, as data. The executor is a dumb loop over these; a dry run prints them.

Each action carries exactly what its executor needs, and every one of them may be repeated without harm.
"""

from dataclasses import dataclass
from enum import StrEnum

from engine_operator.domain.engine import EffectiveServing, Languages, ObjectStore, Resources
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId
from engine_operator.domain.mode import ServingMode
from engine_operator.domain.observed import EngineStatus


@dataclass(frozen=True)
class EngineRef:
    """The TranslationEngine that an action belongs to; owner of whatever is made."""

    name: str
    namespace: str
    uid: str


@dataclass(frozen=True)
class ConversionPlan:
    """One conversion Job, complete: `builders.jobs.conversion_job` turns it into the object."""

    engine: EngineRef
    job: str
    """Its name, from `names.job_name`."""
    key: ArtifactKey
    options: ConversionOptions
    attempt: int
    attempt_id: str
    image: str
    destination: str
    """`s3://…/<installation>/<artifactKey>/`."""
    artifact_store: ObjectStore
    source: ObjectStore | None
    """Exact object or folder of a bucket source; None = presigned URL from a Secret."""
    languages: Languages
    resources: Resources
    deadline_seconds: int
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    """Empty = the namespace's `default`."""

    @property
    def presigned(self) -> bool:
        """The Job's container waits for the Secret that `RefreshSourceUrl` writes."""
        return self.source is None


@dataclass(frozen=True)
class ServiceTemplate:
    """One InferenceService, complete: `builders.inferenceservice.inference_service` turns it into the object.

    Everything in it is constant for one model revision and attempt. Its hash, kept in the engine's status, says
    whether something must be applied; the builder's own changes never roll an engine.
    """

    engine: EngineRef
    engine_id: EngineId
    model_revision: int
    key: ArtifactKey
    manifest_sha256: str
    attempt: int
    model_uri: str
    store: ObjectStore
    serving: EffectiveServing
    """With the frozen runtime image."""
    initial_scale: int
    progress_deadline_seconds: int
    response_start_seconds: int
    """How long a call may wait for the first byte, thus for a wake; never above the cluster's cap, or Knative refuses
    the whole service."""
    service_account: str = ""
    """Empty = the namespace's `default`."""
    mode: ServingMode | None = None
    """Standard mode's shape; None is Knative's."""
    model_bytes: int = 0
    """Size of the model, from which memory and disk follow where nobody chose them; 0 = not known, or chosen. No part
    of the hash: a size that is learned later restarts nothing."""


@dataclass(frozen=True)
class StartConversion:
    """Create the Job (an existing one of this name is left as it is)."""

    plan: ConversionPlan


@dataclass(frozen=True)
class RefreshSourceUrl:
    """Fetch a presigned URL of exactly this revision and write it into the Secret owned by the Job."""

    engine: EngineRef
    job: str
    serval_source: str
    engine_id: EngineId
    revision: int
    """Serval answering with another revision is a ModelUnavailable error."""


@dataclass(frozen=True)
class DeleteJob:
    """Delete a Job and its pods (background propagation)."""

    engine: EngineRef
    job: str
    why: str


@dataclass(frozen=True)
class ApplyInferenceService:
    """Server-side apply; its answer becomes `status.applied` of the WriteStatus that follows."""

    template: ServiceTemplate
    template_hash: str
    reclaim: bool = False
    """Take back, this once, a field that somebody overwrote."""


@dataclass(frozen=True)
class DeleteInferenceService:
    """Delete the InferenceService (foreground: gone when everything below it is gone)."""

    engine: EngineRef
    why: str


@dataclass(frozen=True)
class HoldRevision:
    """Ask Knative to keep pods of a Revision, or to let it sleep again.

    The only field that we write on an object that is not ours.
    """

    engine: EngineRef
    revision: str
    uid: str
    """Of the Revision; one that is gone meanwhile is not made by this."""
    replicas: int | None
    """None takes back what was asked for."""


@dataclass(frozen=True)
class DeleteRevision:
    """Delete a Knative Revision without traffic, and its pods with it (background propagation)."""

    engine: EngineRef
    revision: str
    uid: str
    """Of the Revision; another one of its name is left alone."""
    why: str


@dataclass(frozen=True)
class CollectArtifacts:
    """Delete these folders below the installation, each manifest before its files."""

    engine_id: EngineId
    folders: tuple[str, ...]
    """`<artifactKey>/` or `<artifactKey>/<attempt>/`, relative to the installation."""
    why: str


@dataclass(frozen=True)
class WriteStatus:
    """Apply the status subresource; emitted only if something other than a time changed."""

    engine: EngineRef
    status: EngineStatus


class EventType(StrEnum):
    """Kubernetes' two types of Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class EmitEvent:
    """One Event on the TranslationEngine."""

    engine: EngineRef
    type: EventType
    reason: str
    message: str


@dataclass(frozen=True)
class ApplyEngine:
    """Make a TranslationEngine for a discovered engine: `spec.source`, labels and its owner, nothing else."""

    name: str
    namespace: str
    serval_source: str
    source_uid: str
    """The ServalSource owns what was discovered through it: whoever deletes it means its engines too."""
    engine_id: EngineId


@dataclass(frozen=True)
class DeleteEngine:
    """Delete an operator-made TranslationEngine whose engine is gone; its children follow by owner references."""

    engine: EngineRef
    engine_id: EngineId
    why: str


Action = (
    StartConversion
    | RefreshSourceUrl
    | DeleteJob
    | ApplyInferenceService
    | DeleteInferenceService
    | HoldRevision
    | DeleteRevision
    | CollectArtifacts
    | WriteStatus
    | EmitEvent
    | ApplyEngine
    | DeleteEngine
)
