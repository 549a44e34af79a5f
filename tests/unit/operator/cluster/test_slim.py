"""What a survey leaves out of objects is what no fact is made of."""

import copy
import json
from typing import Any

import pytest

from engine_operator.cluster.facts import job_state, owned_hash, pod_state, revision_state, service_state
from engine_operator.cluster.resources import (
    FIELD_MANAGER,
    INFERENCE_SERVICES,
    JOBS,
    PODS,
    REVISIONS,
    Json,
    Resource,
)
from engine_operator.cluster.slim import slim

OURS: Json = {
    "manager": FIELD_MANAGER,
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:annotations": {"f:autoscaling.knative.dev/min-scale": {}}}},
}
THEIRS: Json = {"manager": "kserve", "operation": "Update", "fieldsV1": {"f:status": {"f:url": {}}}}
KEY = "66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d"
CONTAINER: Json = {
    "name": "kserve-container",
    "image": "predictor@sha256:1",
    "args": ["serve"],
    "env": [
        {"name": "SERVAL_LIVE_MODEL_REVISION", "value": "3"},
        {"name": "SERVAL_LIVE_MODEL_URI", "value": f"s3://store/place/{KEY}/"},
    ],
    "resources": {"limits": {"memory": "2Gi"}},
    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
}


def item(spec: Json, **status: Any) -> Json:
    """An object as the API sends it."""
    return {
        "metadata": {
            "name": "e1",
            "uid": "u1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-30T18:00:00Z",
            "labels": {"serving.knative.dev/revision": "e1-00001", "batch.kubernetes.io/job-name": "e1"},
            "annotations": {
                "serval-live.dev/artifact-key": KEY,
                "serval-live.dev/attempt": "1",
                "autoscaling.knative.dev/min-scale": "2",
            },
            "managedFields": [THEIRS, OURS, {**OURS, "subresource": "status"}],
        },
        "spec": spec,
        "status": status,
    }


READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T18:00:00Z"}]
ENDED = [{"name": "converter", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
POD = item({"nodeName": "one", "containers": [CONTAINER]}, conditions=READY, containerStatuses=ENDED)
SERVICE = item(
    {"predictor": {"containers": [CONTAINER], "minReplicas": 0}}, conditions=READY, url="http://e1"
)
REVISION = item({"containers": [CONTAINER]}, conditions=READY)
JOB = item(
    {"template": {"spec": {"containers": [CONTAINER]}}}, conditions=[{"type": "Failed", "status": "True"}]
)


@pytest.mark.parametrize(
    ("resource", "whole", "facts"),
    [
        (PODS, POD, pod_state),
        (INFERENCE_SERVICES, SERVICE, service_state),
        (INFERENCE_SERVICES, SERVICE, owned_hash),
        (REVISIONS, REVISION, revision_state),
        (JOBS, JOB, lambda job: job_state(job, [slim(PODS, copy.deepcopy(POD))], None)),
    ],
    ids=["pod", "service", "fields of ours", "revision", "job"],
)
def test_facts_stay_and_the_object_gets_smaller(resource: Resource, whole: Json, facts: Any) -> None:
    before = facts(whole)
    smaller = slim(resource, copy.deepcopy(whole))
    assert facts(smaller) == before
    assert len(json.dumps(smaller)) < len(json.dumps(whole))


def test_a_held_revision_and_a_job_out_of_memory_are_among_those_facts() -> None:
    assert revision_state(slim(REVISIONS, copy.deepcopy(REVISION))).held == 2
    failed = job_state(slim(JOBS, copy.deepcopy(JOB)), [slim(PODS, copy.deepcopy(POD))], None)
    assert failed is not None
    assert failed.failure is not None
    assert failed.failure.reason == "ConversionOutOfMemory"
