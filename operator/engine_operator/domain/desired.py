"""What is wanted of one engine, and the record that one round of planning works on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from engine_operator.domain.actions import Action, ApplyInferenceService, EngineRef, ServiceTemplate
from engine_operator.domain.capacity import Quota
from engine_operator.domain.engine import Effective, EngineSpec, Exposure, Languages, ObjectStore, Reconvert
from engine_operator.domain.keys import ArtifactKey
from engine_operator.domain.mode import unsupported
from engine_operator.domain.observed import EngineStatus, ManifestFact, Observed
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import Existence, Verdict
from engine_operator.domain.windows import window_problems


@dataclass(frozen=True)
class Desired:
    """What people and Serval want of one engine."""

    engine: EngineSpec
    effective: Effective
    artifact_store: ObjectStore
    installation: str
    existence: Existence = Existence.UNKNOWN
    """PRESENT for a person's model."""
    model_revision: int | None = None
    """Serval's (0 = never built), or `spec.model.revision`; None = unknown in this round."""
    verdict: Verdict | None = None
    """Why Serval's engine cannot be served; None if it can."""
    model_source: ObjectStore | None = None
    """Exact archive of the wanted revision for bucket access or `spec.model`; None = presigned URL."""
    quota: Quota = field(default_factory=Quota)
    """Of its source; a person's model has none."""
    tags: Languages = field(default_factory=Languages)
    """Serval's tags, to be shown where the engine's own languages are not set; a conversion never sees them."""

    @property
    def ref(self) -> EngineRef:
        """Identity of the resource that owns everything made for it."""
        return EngineRef(self.engine.name, self.engine.namespace, self.engine.uid)

    def key(self, revision: int) -> ArtifactKey:
        """Artifact key of one of its revisions."""
        return ArtifactKey.of(self.engine.engine_id, revision, self.effective.options)

    def location(self, key: ArtifactKey) -> str:
        """`s3://…/<installation>/<artifactKey>/`."""
        return f"{self.artifact_store.uri.rstrip('/')}/{self.installation}/{key}/"


@dataclass(frozen=True)
class Round:
    """One round of planning: everything that its stages read."""

    desired: Desired
    observed: Observed
    now: datetime
    policy: Policy

    @property
    def refusal(self) -> str | None:
        """Why the engine cannot be served as it is asked for, in the mode in which engines run; None if it can."""
        service = self.observed.service
        return unsupported(self.policy.mode, self.desired.effective, service.mode if service else None)

    @property
    def wanted(self) -> int | None:
        """The revision that should serve."""
        return wanted_revision(self.desired, self.observed.status)


def wanted_revision(desired: Desired, status: EngineStatus) -> int | None:
    """The revision that should serve; what was last wanted where Serval cannot be asked, None if none is."""
    if desired.verdict is not None or desired.existence in (Existence.GONE, Existence.NOT_OURS):
        return None
    if desired.engine.pinned is not None:
        return desired.engine.pinned
    if desired.model_revision is not None:
        return desired.model_revision or None
    known = status.target or status.serving
    return known.revision if known else None


@dataclass(frozen=True)
class Stage:
    """What one stage of a round leads to."""

    status: EngineStatus
    actions: tuple[Action, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether the InferenceService is applied, whose answer belongs into the status."""
        return any(isinstance(action, ApplyInferenceService) for action in self.actions)


@dataclass(frozen=True)
class Goal:
    """The artifact that a round works towards."""

    revision: int
    key: ArtifactKey
    manifest: ManifestFact


def template_hash(template: ServiceTemplate) -> str:
    """Hash of a template's content, the same in every process."""

    def plain(value: object) -> object:
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, timedelta):
            return value.total_seconds()
        return str(value)

    content = asdict(template)
    del content["model_bytes"]
    # Chosen with the release, not with the engine: it comes with the next revision and restarts nothing before.
    del content["service_account"]
    # Fields that an older release did not know: where nobody uses them, its hashes must stay what they are.
    if content["mode"] is None:
        del content["mode"]
    for name in ("runtime_class_name", "priority_class_name"):
        if not content["serving"][name]:
            del content["serving"][name]
    text = json.dumps(content, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def effective_summary(desired: Desired, before: Mapping[str, str]) -> dict[str, str]:
    """`status.effective`: the decided settings as people read them; languages stay while Serval cannot be asked."""
    effective, serving = desired.effective, desired.effective.serving
    source = effective.languages.source or desired.tags.source or before.get("source")
    target = effective.languages.target or desired.tags.target or before.get("target")
    summary = {
        "profile": serving.profile.value,
        "protocol": serving.protocol.value,
        "exposure": serving.exposure.value,
        "quantization": effective.options.quantization.value,
        "computeType": serving.compute_type,
        "replicas": f"{serving.min_replicas}..{serving.max_replicas}",
        "concurrency": str(serving.concurrency),
        "scaleDownDelay": f"{int(serving.scale_down_delay.total_seconds())}s",
        "window": f"{int(serving.window.total_seconds())}s",
        "strategy": effective.rollout.strategy.value,
        "start": effective.rollout.start.value,
    }
    summary |= {name: tag for name, tag in (("source", source), ("target", target)) if tag}
    if effective.options.converter:
        summary["reconvert"] = Reconvert.NEW_CONVERTER.value
    if effective.gpus_per_pod:
        summary["gpu"] = f"{effective.gpus_per_pod} {effective.gpu.resource}"
    for name, chosen in (
        ("runtimeClassName", serving.runtime_class_name),
        ("priorityClassName", serving.priority_class_name),
        ("priority", desired.engine.priority),
        ("keepWarm", desired.engine.keep_warm),
    ):
        if chosen:
            summary[name] = str(chosen).lower() if chosen is True else str(chosen)
    if effective.warm_windows:
        summary["warmWindows"] = "; ".join(map(str, effective.warm_windows))
    warnings = _warnings(effective)
    if warnings:
        summary["warning"] = "; ".join(warnings)
    return summary


def _warnings(effective: Effective) -> tuple[str, ...]:
    """What people may not have meant."""
    found: list[str] = []
    if effective.serving.exposure is Exposure.EXTERNAL:
        found.append("ExposedExternally: whoever reaches the ingress may use this engine")
    if effective.min_scale is not None:
        found.append(
            f"MinScaleAnnotation: Knative reads no annotation of a {effective.min_scale.where}; taken as "
            f"serving.minReplicas {effective.min_scale.replicas}"
        )
    found += [f"WarmWindowUnreadable: {one}" for one in window_problems(effective.warm_windows)]
    return tuple(found)
