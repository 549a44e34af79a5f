"""Objects of the API, turned into the facts that decisions are made from.

Pure, and forgiving: a status that is not written yet is "unknown", never an error. Model facts of a Revision or an
InferenceService are read from its container's environment, which is constant for one model revision; so nothing that a
lost status held is lost for good.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from engine_operator.cluster.converter_pod import sized, unscheduled
from engine_operator.cluster.resources import FIELD_MANAGER, JsonView
from engine_operator.domain import reasons, wire
from engine_operator.domain.keys import ArtifactKey, digest
from engine_operator.domain.mode import DeploymentMode, mode_of
from engine_operator.domain.observed import (
    ConditionStatus,
    JobPhase,
    JobState,
    PodState,
    ProcessFailure,
    RevisionState,
    ServiceState,
)

_IMAGE_PROBLEMS = frozenset(
    {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError"}
)
"""Waiting reasons that do not go away by themselves soon; ErrImagePull alone is tried again at once."""


def moment(text: Any) -> datetime | None:
    """A time of the API's."""
    return datetime.fromisoformat(str(text)) if text else None


def created(item: JsonView) -> datetime:
    """When an object was made."""
    found = moment(item["metadata"].get("creationTimestamp"))
    assert found is not None, "the API server stamps every object"
    return found


def written_at(item: JsonView) -> datetime | None:
    """When a field of an object that we alone write was last changed."""
    times = [moment(entry.get("time")) for entry in item["metadata"].get("managedFields") or []]
    return max((one for one in times if one is not None), default=None)


def owned_hash(item: JsonView) -> str:
    """Hash of the fields that our applies own; another value means that somebody took a field, or gave one back."""
    for entry in item["metadata"].get("managedFields") or []:
        if (entry.get("manager"), entry.get("operation")) != (FIELD_MANAGER, "Apply"):
            continue
        if not entry.get("subresource"):
            return digest(json.dumps(entry.get("fieldsV1"), sort_keys=True), length=16)
    return ""


def service_state(item: JsonView) -> ServiceState:
    """An InferenceService."""
    metadata, status = item["metadata"], item.get("status") or {}
    predictor = (status.get("components") or {}).get("predictor") or {}
    container = _container(
        ((item.get("spec") or {}).get("predictor") or {}).get("containers"), wire.CONTAINER
    )
    environment = _environment(container)
    ready, reason, message = _condition(status, "Ready")
    deleting = "deletionTimestamp" in metadata
    scale = _predictor_annotations(item).get(wire.ANNOTATION_INITIAL_SCALE, "1")
    annotated = (metadata.get("annotations") or {}).get(wire.ANNOTATION_DEPLOYMENT_MODE)
    mode = mode_of(str(status.get("deploymentMode") or annotated or ""))
    return ServiceState(
        url=str(status.get("url") or ""),
        deleting=deleting,
        owned_hash=owned_hash(item),
        model_revision=_number(environment.get(wire.ENV_MODEL_REVISION)),
        manifest_sha256=environment.get(wire.ENV_MANIFEST_SHA256, ""),
        attempt=_number(environment.get(wire.ENV_ATTEMPT)),
        artifact_key=artifact_key_of(environment.get(wire.ENV_MODEL_URI, "")),
        runtime_image=str(container.get("image") or ""),
        initial_scale=_number(scale, default=1),
        all_traffic=loaded_name(environment) if mode is DeploymentMode.STANDARD else _all_traffic(predictor),
        routed=_condition(status, "PredictorRouteReady")[0] is ConditionStatus.TRUE,
        ready=ready,
        reason=reason,
        message=message,
        latest_created=predictor.get("latestCreatedRevision"),
        latest_ready=predictor.get("latestReadyRevision"),
        holds_deletion=tuple(metadata.get("finalizers") or ()) if deleting else (),
        mode=mode,
        may_sleep=((item.get("spec") or {}).get("predictor") or {}).get("minReplicas") == 0,
    )


def loaded_name(environment: Mapping[str, str]) -> str:
    """Names the revision that a predictor of this environment runs, where no Knative does; "" for anything else."""
    names = (wire.ENV_MODEL_NAME, wire.ENV_MODEL_REVISION, wire.ENV_ATTEMPT, wire.ENV_MANIFEST_SHA256)
    name, revision, attempt, manifest = (environment.get(one, "") for one in names)
    return f"{name}-r{revision}-a{attempt}-{manifest[:8]}" if name and manifest else ""


def loaded_revision(pod: JsonView) -> RevisionState | None:
    """What a predictor's pod runs, as a revision; None for other pods."""
    container = _container((pod.get("spec") or {}).get("containers"), wire.CONTAINER)
    environment = _environment(container)
    name = loaded_name(environment)
    if not name:
        return None
    return RevisionState(
        name=name,
        created=created(pod),
        model_revision=_number(environment.get(wire.ENV_MODEL_REVISION)),
        manifest_sha256=environment.get(wire.ENV_MANIFEST_SHA256, ""),
        attempt=_number(environment.get(wire.ENV_ATTEMPT)),
        artifact_key=artifact_key_of(environment.get(wire.ENV_MODEL_URI, "")),
        runtime_image=str(container.get("image") or ""),
        initial_scale=1,
        ready=ConditionStatus.UNKNOWN,
    )


def revision_state(item: JsonView) -> RevisionState:
    """A Knative Revision."""
    container = _container((item.get("spec") or {}).get("containers"), wire.CONTAINER)
    environment = _environment(container)
    ready, reason, message = _condition(item.get("status") or {}, "Ready")
    annotations = item["metadata"].get("annotations") or {}
    return RevisionState(
        name=str(item["metadata"]["name"]),
        created=created(item),
        model_revision=_number(environment.get(wire.ENV_MODEL_REVISION)),
        manifest_sha256=environment.get(wire.ENV_MANIFEST_SHA256, ""),
        attempt=_number(environment.get(wire.ENV_ATTEMPT)),
        artifact_key=artifact_key_of(environment.get(wire.ENV_MODEL_URI, "")),
        runtime_image=str(container.get("image") or ""),
        initial_scale=_number(annotations.get(wire.ANNOTATION_INITIAL_SCALE), default=1),
        ready=ready,
        reason=reason,
        message=message,
        uid=str(item["metadata"].get("uid") or ""),
        held=held_scale(item),
    )


def held_scale(item: JsonView) -> int | None:
    """The least scale of a Revision, if it is the one that we applied."""
    field = f"f:{wire.ANNOTATION_MIN_SCALE}"
    for entry in item["metadata"].get("managedFields") or []:
        if (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply"):
            metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
            if field in (metadata.get("f:annotations") or {}):
                return _number((item["metadata"].get("annotations") or {}).get(wire.ANNOTATION_MIN_SCALE))
    return None


def pod_state(item: JsonView) -> PodState:
    """A predictor's pod."""
    metadata, status = item["metadata"], item.get("status") or {}
    container = _container(status.get("containerStatuses"), wire.CONTAINER)
    scheduled, _, why = _condition(status, "PodScheduled")
    ready, _, _ = _condition(status, "Ready")
    running = (container.get("state") or {}).get("running") or {}
    return PodState(
        name=str(metadata["name"]),
        knative_revision=_revision_of(item),
        created=created(item),
        ready=ready is ConditionStatus.TRUE,
        unschedulable=why if scheduled is ConditionStatus.FALSE else None,
        failure=_evicted(status) or process_failure(container, reasons.REVISION_FAILED),
        terminating="deletionTimestamp" in metadata,
        scheduled_at=_since(status, "PodScheduled"),
        started_at=moment(running.get("startedAt")),
        ready_at=_since(status, "Ready"),
        address=str(status.get("podIP") or ""),
    )


def _revision_of(pod: JsonView) -> str:
    """The revision of a predictor's pod; "" for pods of other kinds."""
    label = (pod["metadata"].get("labels") or {}).get("serving.knative.dev/revision")
    if label:
        return str(label)
    containers = (pod.get("spec") or {}).get("containers")
    return loaded_name(_environment(_container(containers, wire.CONTAINER)))


def job_state(item: JsonView, pods: Iterable[JsonView], source_written: datetime | None) -> JobState | None:
    """A conversion Job with its pods; None if it carries no artifact key, so is none of ours."""
    metadata = item["metadata"]
    annotations = metadata.get("annotations") or {}
    key = ArtifactKey.parse(str(annotations.get(wire.ANNOTATION_ARTIFACT_KEY, "")))
    if key is None:
        return None
    mine = sorted((pod for pod in pods if _job_of(pod) == metadata["name"]), key=created)
    phase = _job_phase(item.get("status") or {}, mine)
    return JobState(
        name=str(metadata["name"]),
        artifact_key=key,
        attempt=_number(annotations.get(wire.ANNOTATION_ATTEMPT)),
        phase=phase,
        created=created(item),
        source_written=source_written,
        failure=_job_failure(item.get("status") or {}, mine) if phase is JobPhase.FAILED else None,
        deleting="deletionTimestamp" in metadata,
        unschedulable=unscheduled(mine[-1]) if mine else None,
    )


def process_failure(container: Mapping[str, Any], otherwise: str) -> ProcessFailure | None:
    """How a container of this status failed, now or the last time; None if it did not.

    `otherwise` is the reason for an end that left no termination line.
    """
    state, last = container.get("state") or {}, container.get("lastState") or {}
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _IMAGE_PROBLEMS:
        return ProcessFailure(str(waiting["reason"]), str(waiting.get("message") or ""))
    ended = state.get("terminated") or last.get("terminated")
    if not ended or ended.get("exitCode") == 0:
        return None
    return _termination(ended, otherwise)


def named_key(item: JsonView) -> ArtifactKey | None:
    """The artifact that an InferenceService, a Revision, a Pod or a Job may still load or write."""
    annotated = ArtifactKey.parse(
        str((item["metadata"].get("annotations") or {}).get(wire.ANNOTATION_ARTIFACT_KEY, ""))
    )
    spec = item.get("spec") or {}
    containers = (spec.get("predictor") or spec).get("containers")
    environment = _environment(_container(containers, wire.CONTAINER))
    return annotated or artifact_key_of(environment.get(wire.ENV_MODEL_URI, ""))


def artifact_key_of(model_uri: str) -> ArtifactKey | None:
    """The artifact key at the end of a model URI."""
    return ArtifactKey.parse("/".join(model_uri.rstrip("/").split("/")[-3:]))


def _termination(ended: Mapping[str, Any], otherwise: str) -> ProcessFailure:
    code = ended.get("exitCode")
    said = str(ended.get("message") or "").strip()
    if ended.get("reason") == "OOMKilled":
        # The kernel ends the process before it can write its line; an older line would mislead.
        return ProcessFailure(reasons.OUT_OF_MEMORY, f"killed for memory (exit code {code})", code)
    try:
        line = json.loads(said.splitlines()[-1]) if said else {}
        return ProcessFailure(str(line["reason"]), str(line["message"]), code)
    except (ValueError, KeyError, TypeError):
        kubernetes = str(ended.get("reason") or "Error")
        return ProcessFailure(otherwise, f"{kubernetes}, exit code {code}: {said[-500:]}".rstrip(": "), code)


def _job_phase(status: JsonView, pods: list[JsonView]) -> JobPhase:
    if _condition(status, "Failed")[0] is ConditionStatus.TRUE:
        return JobPhase.FAILED
    if _condition(status, "Complete")[0] is ConditionStatus.TRUE:
        return JobPhase.SUCCEEDED
    if not pods or not (pods[-1].get("spec") or {}).get("nodeName"):
        return JobPhase.WAITING
    container = _container((pods[-1].get("status") or {}).get("containerStatuses"), wire.CONVERTER_CONTAINER)
    state = container.get("state") or {}
    return JobPhase.RUNNING if "running" in state or "terminated" in state else JobPhase.NEEDS_SOURCE


def _job_failure(status: JsonView, pods: list[JsonView]) -> ProcessFailure | None:
    _, reason, message = _condition(status, "Failed")
    if reason == "DeadlineExceeded":
        return ProcessFailure(reasons.DEADLINE_EXCEEDED, message)
    for pod in reversed(pods):
        container = _container((pod.get("status") or {}).get("containerStatuses"), wire.CONVERTER_CONTAINER)
        found = _evicted(pod.get("status") or {}) or process_failure(container, reasons.CONVERSION_FAILED)
        if found is not None:
            return sized(found, pod)
    return None


def _evicted(status: JsonView) -> ProcessFailure | None:
    if status.get("phase") == "Failed" and status.get("reason") == "Evicted":
        return ProcessFailure(reasons.EVICTED, str(status.get("message") or ""))
    return None


def _job_of(pod: JsonView) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("batch.kubernetes.io/job-name") or labels.get("job-name") or "")


def _all_traffic(predictor: JsonView) -> str | None:
    """The revision with all traffic. KServe lists entries of 0 % beside it while a tag or a roll-out exists."""
    entries = [entry for entry in predictor.get("traffic") or [] if entry.get("percent")]
    if len(entries) != 1 or entries[0]["percent"] != 100:
        return None
    name = entries[0].get("revisionName")
    return str(name) if name else None


def _condition(status: JsonView, kind: str) -> tuple[ConditionStatus, str, str]:
    for entry in status.get("conditions") or []:
        if entry.get("type") == kind:
            value = str(entry.get("status"))
            known = value if value in ("True", "False") else "Unknown"
            return ConditionStatus(known), str(entry.get("reason") or ""), str(entry.get("message") or "")
    return ConditionStatus.UNKNOWN, "", ""


def _since(status: JsonView, kind: str) -> datetime | None:
    """Since when a condition is true; None if it is not."""
    for entry in status.get("conditions") or []:
        if entry.get("type") == kind and entry.get("status") == "True":
            return moment(entry.get("lastTransitionTime"))
    return None


def _container(containers: Any, name: str) -> Mapping[str, Any]:
    """The container of that name, else the first one."""
    found: list[Mapping[str, Any]] = list(containers or [])
    return next((one for one in found if one.get("name") == name), found[0] if found else {})


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {str(one["name"]): str(one.get("value") or "") for one in container.get("env") or []}


def _predictor_annotations(item: JsonView) -> Mapping[str, str]:
    """KServe takes pod annotations from the service's own metadata and from its predictor."""
    predictor = (item.get("spec") or {}).get("predictor") or {}
    return {**(item["metadata"].get("annotations") or {}), **(predictor.get("annotations") or {})}


def _number(text: Any, default: int = 0) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        return default
