"""From foreign statuses to facts, in the shapes that Kubernetes, Knative and KServe write them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engine_operator.cluster.facts import (
    held_scale,
    job_state,
    named_key,
    owned_hash,
    pod_state,
    revision_state,
    service_state,
    written_at,
)
from engine_operator.domain.observed import ConditionStatus, JobPhase

KEY = "66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d"
BORN = "2026-11-30T12:00:00Z"
ENV = [
    {"name": "SERVAL_LIVE_MODEL_URI", "value": f"s3://bucket/a/installation/{KEY}/"},
    {"name": "SERVAL_LIVE_MODEL_REVISION", "value": "3"},
    {"name": "SERVAL_LIVE_MANIFEST_SHA256", "value": "ab" * 32},
    {"name": "SERVAL_LIVE_ATTEMPT", "value": "2"},
    {
        "name": "AWS_ACCESS_KEY_ID",
        "valueFrom": {"secretKeyRef": {"name": "store", "key": "AWS_ACCESS_KEY_ID"}},
    },
]
CONTAINER = {"name": "kserve-container", "image": "predictor@sha256:1", "env": ENV}


def service(**status: Any) -> dict[str, Any]:
    """An InferenceService with a status."""
    return {
        "metadata": {"name": "e1", "annotations": {"autoscaling.knative.dev/initial-scale": "0"}},
        "spec": {"predictor": {"containers": [CONTAINER]}},
        "status": status,
    }


def pod(**status: Any) -> dict[str, Any]:
    """A predictor's pod."""
    labels = {"serving.knative.dev/revision": "e1-predictor-00002"}
    return {"metadata": {"name": "p", "creationTimestamp": BORN, "labels": labels}, "status": status}


def test_a_service_tells_what_its_container_was_given() -> None:
    state = service_state(service())
    assert (state.model_revision, state.attempt, state.initial_scale) == (3, 2, 0)
    assert str(state.artifact_key) == KEY
    assert state.all_traffic is None
    assert state.ready is ConditionStatus.UNKNOWN


@pytest.mark.parametrize(
    ("traffic", "expected"),
    [
        ([{"revisionName": "r2", "percent": 100, "latestRevision": True}], "r2"),
        ([{"revisionName": "r2", "percent": 100}, {"revisionName": "r1", "percent": 0, "tag": "prev"}], "r2"),
        ([{"revisionName": "r2", "percent": 50}, {"revisionName": "r1", "percent": 50}], None),
        ([], None),
    ],
)
def test_all_traffic_is_told_only_where_one_revision_has_it(traffic: list[Any], expected: str | None) -> None:
    status = {"components": {"predictor": {"traffic": traffic}}}
    assert service_state(service(**status)).all_traffic == expected


def test_only_our_own_applied_fields_are_hashed() -> None:
    ours = {"manager": "serval-live", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}}
    foreign = {"manager": "manager", "operation": "Update", "fieldsV1": {"f:spec": {"f:b": {}}}}
    status = {**ours, "subresource": "status", "fieldsV1": {"f:status": {}}}
    both = owned_hash({"metadata": {"managedFields": [foreign, status, ours]}})
    assert both == owned_hash({"metadata": {"managedFields": [ours]}})
    assert both != owned_hash({"metadata": {"managedFields": [{**ours, "fieldsV1": {"f:spec": {}}}]}})
    assert owned_hash({"metadata": {"managedFields": [foreign]}}) == ""


def test_a_revision_tells_model_and_readiness() -> None:
    failed = {"type": "Ready", "status": "False", "reason": "ExitCode3", "message": "it ended"}
    item = {
        "metadata": {"name": "e1-predictor-00002", "creationTimestamp": BORN},
        "spec": {"containers": [CONTAINER]},
        "status": {"conditions": [failed]},
    }
    state = revision_state(item)
    assert (state.model_revision, state.ready, state.reason) == (3, ConditionStatus.FALSE, "ExitCode3")
    assert state.initial_scale == 1
    assert state.created == datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_pod_without_a_node_tells_why() -> None:
    why = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient nvidia.com/gpu"}
    state = pod_state(pod(conditions=[why]))
    assert state.unschedulable == why["message"]
    assert not state.ready


OLD_LINE = '{"reason": "Old", "message": "x"}'


def ended(**terminated: Any) -> list[dict[str, Any]]:
    """Container statuses of a container that crashed and waits for its next start."""
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    return [{"name": "kserve-container", "state": waiting, "lastState": {"terminated": terminated}}]


def test_a_crashed_pod_speaks_by_its_termination_line() -> None:
    line = 'Traceback…\n{"reason": "ProbeMismatch", "message": "probe 2 differs"}'
    failure = pod_state(pod(containerStatuses=ended(exitCode=33, reason="Error", message=line))).failure
    assert failure is not None
    assert (failure.reason, failure.message, failure.exit_code) == ("ProbeMismatch", "probe 2 differs", 33)


@pytest.mark.parametrize(
    ("terminated", "reason", "part"),
    [
        (
            {"exitCode": 137, "reason": "OOMKilled", "message": '{"reason": "Old", "message": "x"}'},
            "OutOfMemory",
            "137",
        ),
        ({"exitCode": 1, "reason": "Error", "message": "no line at all"}, "RevisionFailed", "no line at all"),
        ({"exitCode": 1, "reason": "Error"}, "RevisionFailed", "exit code 1"),
    ],
)
def test_a_crash_without_a_line_is_told_by_what_kubernetes_knows(
    terminated: dict[str, Any], reason: str, part: str
) -> None:
    failure = pod_state(pod(containerStatuses=ended(**terminated))).failure
    assert failure is not None
    assert failure.reason == reason
    assert part in failure.message


def test_an_evicted_pod_and_an_image_that_is_not_there_are_failures_and_a_first_pull_error_is_not() -> None:
    evicted = pod_state(pod(phase="Failed", reason="Evicted", message="ephemeral-storage")).failure
    assert evicted is not None
    assert evicted.reason == "Evicted"
    for reason, fails in (("ImagePullBackOff", True), ("ErrImagePull", False), ("ContainerCreating", False)):
        state = {"waiting": {"reason": reason, "message": "x"}}
        found = pod_state(pod(containerStatuses=[{"name": "kserve-container", "state": state}])).failure
        assert (found is not None) is fails, reason


def test_a_least_scale_is_ours_only_if_we_applied_it() -> None:
    name = "autoscaling.knative.dev/min-scale"
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{name}": {}}}}
    item: dict[str, Any] = {"metadata": {"annotations": {name: "1"}}}
    assert held_scale(item) is None
    item["metadata"]["managedFields"] = [{"manager": "controller", "operation": "Update", "fieldsV1": fields}]
    assert held_scale(item) is None
    item["metadata"]["managedFields"].append(
        {"manager": "serval-live", "operation": "Apply", "fieldsV1": fields}
    )
    assert held_scale(item) == 1


def job(**status: Any) -> dict[str, Any]:
    """A conversion Job."""
    annotations = {"serval-live.dev/artifact-key": KEY, "serval-live.dev/attempt": "2"}
    metadata = {"name": "job", "creationTimestamp": BORN, "annotations": annotations}
    return {"metadata": metadata, "status": status}


def job_pod(node: str | None, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Job's pod."""
    labels = {"batch.kubernetes.io/job-name": "job"}
    statuses = [{"name": "converter", "state": state}] if state else []
    return {
        "metadata": {"name": "job-x", "creationTimestamp": BORN, "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": {"containerStatuses": statuses},
    }


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "…"}
LINE = '{"reason": "BrokenArchive", "message": "no gzip"}'


@pytest.mark.parametrize(
    ("status", "pods", "phase"),
    [
        ({}, [], JobPhase.WAITING),
        ({}, [job_pod(None)], JobPhase.WAITING),
        ({}, [job_pod("n", {"waiting": {"reason": "CreateContainerConfigError"}})], JobPhase.NEEDS_SOURCE),
        ({}, [job_pod("n", {"running": {}})], JobPhase.RUNNING),
        ({}, [job_pod("n", {"terminated": {"exitCode": 0}})], JobPhase.RUNNING),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, [], JobPhase.SUCCEEDED),
        ({"conditions": [FAILED]}, [], JobPhase.FAILED),
    ],
)
def test_a_job_is_where_its_pod_is_and_done_only_when_the_job_says_so(
    status: dict[str, Any], pods: list[dict[str, Any]], phase: JobPhase
) -> None:
    state = job_state(job(**status), pods, None)
    assert state is not None
    assert (state.phase, str(state.artifact_key), state.attempt) == (phase, KEY, 2)


def test_a_failed_job_speaks_by_its_pod_and_a_late_one_by_its_deadline() -> None:
    pods = [job_pod("n", {"terminated": {"exitCode": 12, "reason": "Error", "message": LINE}})]
    failed = job_state(job(conditions=[FAILED]), pods, None)
    assert failed is not None
    assert failed.failure is not None
    assert failed.failure.reason == "BrokenArchive"
    late = job_state(job(conditions=[{**FAILED, "reason": "DeadlineExceeded"}]), pods, None)
    assert late is not None
    assert late.failure is not None
    assert late.failure.reason == "DeadlineExceeded"


def test_jobs_of_others_are_none_of_ours() -> None:
    assert job_state({"metadata": {"name": "x", "creationTimestamp": BORN}}, [], None) is None


def test_everything_that_may_load_or_write_an_artifact_names_it() -> None:
    pod_item = {"metadata": {}, "spec": {"containers": [{"name": "queue-proxy"}, CONTAINER]}}
    for item in (service(), job(), pod_item, {"metadata": {}, "spec": {"containers": [CONTAINER]}}):
        assert str(named_key(item)) == KEY
    assert named_key({"metadata": {}, "spec": {"containers": [{"name": "other"}]}}) is None


def test_the_time_of_the_last_write_is_the_latest_of_all_managers() -> None:
    entries = [{"time": "2026-11-30T12:00:00Z"}, {"time": "2026-11-30T12:30:00Z"}, {}]
    assert written_at({"metadata": {"managedFields": entries}}) == datetime(2026, 11, 30, 12, 30, tzinfo=UTC)
    assert written_at({"metadata": {}}) is None
