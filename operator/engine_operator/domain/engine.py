"""What people write in the two custom resources, typed, and the records in which all of it is decided.

Every field of the written records may be absent (`None` or empty); `effective` fills them. Parsing of custom resources
belongs to the edge, building of objects to the builders.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from engine_operator.domain.capacity import Gpu, Quota, WarmBudget
from engine_operator.domain.keys import ConversionOptions, EngineId, Quantization, model_engine_id
from engine_operator.domain.windows import WarmWindow


class Profile(StrEnum):
    """What a predictor's pod runs on; resource figures are in `engine_operator.profiles`."""

    CPU = "cpu"
    GPU = "gpu"


class Protocol(StrEnum):
    """The one protocol that the ingress carries to an engine."""

    REST = "rest"
    GRPC = "grpc"


class Exposure(StrEnum):
    """Who can reach an engine's address."""

    CLUSTER_LOCAL = "ClusterLocal"
    EXTERNAL = "External"


class Strategy(StrEnum):
    """How a new revision takes over."""

    BLUE_GREEN = "BlueGreen"
    RECREATE = "Recreate"
    AUTO = "Auto"


class RolloutStart(StrEnum):
    """What starts the first pod of a new revision."""

    ON_BUILD = "OnBuild"
    ON_FIRST_CALL = "OnFirstCall"


class StoreAccess(StrEnum):
    """How the conversion Job gets Serval's model archive."""

    PRESIGNED_URL = "PresignedUrl"
    BUCKET = "Bucket"


class Reconvert(StrEnum):
    """When a model that is converted is converted again."""

    NEVER = "Never"
    NEW_CONVERTER = "NewConverter"


@dataclass(frozen=True)
class Languages:
    """Flores-200 codes or BCP-47 tags; None lets the model's own files decide."""

    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Resources:
    """Kubernetes quantities by resource name."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Toleration:
    """A pod toleration; the words are Kubernetes'."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


@dataclass(frozen=True)
class EnvVar:
    """A plain environment variable that a person adds to predictors."""

    name: str
    value: str


@dataclass(frozen=True)
class ServingSpec:
    """`spec.serving` of either resource, as written; None means "not said"."""

    profile: Profile | None = None
    protocol: Protocol | None = None
    exposure: Exposure | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    concurrency: int | None = None
    scale_down_delay: timedelta | None = None
    window: timedelta | None = None
    resources: Resources | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    runtime_image: str | None = None
    image_pull_secrets: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    gpu: Gpu | None = None
    runtime_class_name: str | None = None
    priority_class_name: str | None = None


@dataclass(frozen=True)
class MinScaleAnnotation:
    """Knative's annotation on a resource of ours: it does nothing there, so its value is read as `minReplicas`."""

    where: str
    replicas: int


@dataclass(frozen=True)
class RolloutSpec:
    """`spec.rollout`."""

    strategy: Strategy = Strategy.BLUE_GREEN
    start: RolloutStart = RolloutStart.ON_BUILD


@dataclass(frozen=True)
class ObjectStore:
    """A place in an S3 store and the Secret that opens it (keys as AWS names them)."""

    uri: str
    endpoint: str | None = None
    region: str | None = None
    secret: str | None = None
    reader_secret: str | None = None
    """Secret for predictors; the same as `secret` where people make no difference."""
    ca_config_map: str | None = None
    """ConfigMap with `ca.crt`, for stores with a private authority."""

    @property
    def for_readers(self) -> str | None:
        """Name of the Secret that predictors get."""
        return self.reader_secret or self.secret


@dataclass(frozen=True)
class ModelStoreSpec:
    """How a conversion Job reads Serval's archives; `store` only with access `Bucket`."""

    access: StoreAccess = StoreAccess.PRESIGNED_URL
    store: ObjectStore | None = None


@dataclass(frozen=True)
class EngineSelector:
    """Which engines of an account are followed; an empty tuple selects all."""

    types: tuple[str, ...] = ("nmt",)
    names: tuple[str, ...] = ()
    """Shell patterns (`team:*`)."""
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceSpec:
    """A ServalSource: one Serval account to follow. Secrets are named here, never held."""

    name: str
    namespace: str
    uid: str
    url: str
    credentials_secret: str
    artifact_store: ObjectStore
    token_url: str | None = None
    audience: str | None = None
    model_store: ModelStoreSpec = ModelStoreSpec()
    installation: str | None = None
    selector: EngineSelector = EngineSelector()
    serving: ServingSpec = ServingSpec()
    quantization: Quantization | None = None
    reconvert: Reconvert | None = None
    warm_windows: tuple[WarmWindow, ...] | None = None
    min_scale: MinScaleAnnotation | None = None
    quota: Quota = field(default_factory=Quota)
    warm_budget: WarmBudget | None = None
    generation: int = 0
    allow_mass_deletion: int | None = None
    """From the annotation `serval-live.dev/allow-mass-deletion`."""


@dataclass(frozen=True)
class SourceRef:
    """`spec.source`: an engine of Serval."""

    serval_source: str
    engine_id: EngineId


@dataclass(frozen=True)
class ModelSpec:
    """`spec.model`: a checkpoint that a person keeps in S3 (folder or `.tar.gz`)."""

    store: ObjectStore
    artifact_store: ObjectStore
    revision: int = 1


@dataclass(frozen=True)
class EngineSpec:
    """A TranslationEngine, as written."""

    name: str
    namespace: str
    uid: str
    origin: SourceRef | ModelSpec
    languages: Languages = Languages()
    quantization: Quantization | None = None
    serving: ServingSpec = ServingSpec()
    rollout: RolloutSpec = RolloutSpec()
    reconvert: Reconvert | None = None
    warm_windows: tuple[WarmWindow, ...] | None = None
    """None leaves them to the source; an empty tuple means none."""
    min_scale: MinScaleAnnotation | None = None
    priority: int = 0
    """Engines of a higher one get a free place first."""
    keep_warm: bool = False
    """Pinned awake: a pod of what serves, whoever calls."""
    paused: bool = False
    suspended: bool = False
    pinned: int | None = None
    generation: int = 0
    operator_made: bool = False
    """Carries the label `serval-live.dev/discovered`; only such resources are ever deleted by the operator."""
    retry_token: str | None = None
    """Annotation `serval-live.dev/retry`: another value starts the attempts anew."""

    @property
    def engine_id(self) -> EngineId:
        """Id by which artifacts are kept."""
        if isinstance(self.origin, SourceRef):
            return self.origin.engine_id
        return model_engine_id(self.name, self.origin.store.uri)


@dataclass(frozen=True)
class EffectiveServing:
    """`serving` with every field decided."""

    profile: Profile
    protocol: Protocol
    exposure: Exposure
    min_replicas: int
    max_replicas: int
    concurrency: int
    scale_down_delay: timedelta
    window: timedelta
    resources: Resources
    device: str
    compute_type: str
    runtime_image: str
    image_chosen: bool = False
    """A person named the image; otherwise it is this release's, and frozen while a model revision serves."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    runtime_class_name: str = ""
    priority_class_name: str = ""


@dataclass(frozen=True)
class Effective:
    """What an engine gets: its own wishes over its source's over its profile's."""

    options: ConversionOptions
    serving: EffectiveServing
    rollout: RolloutSpec
    languages: Languages
    warm_windows: tuple[WarmWindow, ...] = ()
    min_scale: MinScaleAnnotation | None = None
    """The annotation that `serving.min_replicas` was taken from."""
    resources_chosen: bool = False
    """A person wrote them; otherwise they grow with the model."""
    gpu: Gpu = field(default_factory=Gpu)
    """What a GPU is called here; `serving.resources` has as many as a pod gets."""

    @property
    def gpus_per_pod(self) -> int:
        """GPUs of one predictor's pod."""
        resources, name = self.serving.resources, self.gpu.resource
        text = str(resources.limits.get(name) or resources.requests.get(name) or "0")
        return int(text) if text.isdecimal() else 0
