"""Standard mode from the API's objects: pods become revisions, and the oldest that is ready has the traffic."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engine_operator.cluster.facts import loaded_revision, pod_state, revision_state, service_state
from engine_operator.cluster.standard import in_standard_mode
from engine_operator.domain.mode import DeploymentMode
from engine_operator.domain.observed import ConditionStatus, RevisionState, ServiceState

NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def container(revision: int, attempt: int = 1) -> dict[str, Any]:
    variables = {
        "SERVAL_LIVE_MODEL_NAME": "e1",
        "SERVAL_LIVE_MODEL_URI": f"s3://b/i/66c4a1f09d3e5b7a8c0f1e21/r{revision}/ct2v1-1a2b3c4d/",
        "SERVAL_LIVE_MODEL_REVISION": str(revision),
        "SERVAL_LIVE_MANIFEST_SHA256": f"{revision}" * 64,
        "SERVAL_LIVE_ATTEMPT": str(attempt),
    }
    return {
        "name": "kserve-container",
        "image": "p@sha256:1",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }


def pod(name: str, revision: int, minute: int, ready: bool = False, **facts: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    if message := facts.get("homeless"):
        conditions.append({"type": "PodScheduled", "status": "False", "message": message})
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-12-01T00:{minute:02d}:00Z"},
        "spec": {"containers": [container(revision, facts.get("attempt", 1))]},
        "status": {"conditions": conditions},
    }


def service(revision: int, attempt: int = 1, least: int = 1, reason: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": "e1"},
        "spec": {"predictor": {"containers": [container(revision, attempt)], "minReplicas": least}},
        "status": {
            "deploymentMode": "Standard",
            "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "timed out"}],
        },
    }


def seen(item: dict[str, Any], *pods: dict[str, Any]) -> tuple[ServiceState, tuple[RevisionState, ...]]:
    states = [pod_state(one) for one in pods]
    loaded = [found for one in pods if (found := loaded_revision(one)) is not None]
    return in_standard_mode(service_state(item), loaded, states)


def by_model(revisions: tuple[RevisionState, ...]) -> dict[int, ConditionStatus]:
    return {one.model_revision: one.ready for one in revisions}


def test_while_a_deployment_rolls_the_old_pods_have_the_traffic_and_then_the_new_ones() -> None:
    old, new = pod("a", 3, 0, ready=True), pod("b", 4, 5)
    found, revisions = seen(service(4), new, old)
    assert found.mode is DeploymentMode.STANDARD
    assert by_model(revisions) == {3: ConditionStatus.TRUE, 4: ConditionStatus.UNKNOWN}
    assert found.all_traffic == pod_state(old).knative_revision
    both, _ = seen(service(4), pod("b", 4, 5, ready=True), old)
    assert both.all_traffic == pod_state(old).knative_revision, "some calls still go there"
    done, _ = seen(service(4), pod("b", 4, 5, ready=True))
    assert done.all_traffic == pod_state(new).knative_revision


def test_pods_of_one_model_are_one_revision_and_another_attempt_is_another() -> None:
    _, revisions = seen(service(3), pod("a", 3, 0, ready=True), pod("b", 3, 7), pod("c", 3, 9, attempt=2))
    assert [one.attempt for one in revisions] == [1, 2]
    assert revisions[0].created == datetime(2026, 12, 1, tzinfo=UTC), "as old as its oldest pod"
    assert revisions[0].ready is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("facts", "reason", "told"),
    [
        ({"homeless": NO_GPU}, "", ("Unschedulable", NO_GPU)),
        ({"homeless": NO_GPU}, "ProgressDeadlineExceeded", ("Unschedulable", NO_GPU)),
        ({}, "ProgressDeadlineExceeded", ("ProgressDeadlineExceeded", "timed out")),
        ({}, "MinimumReplicasUnavailable", None),
    ],
)
def test_a_new_revision_that_does_not_get_ready_is_told_in_words_that_the_plan_knows(
    facts: dict[str, Any], reason: str, told: tuple[str, str] | None
) -> None:
    _, revisions = seen(service(4, reason=reason), pod("a", 3, 0, ready=True), pod("b", 4, 5, **facts))
    old, new = revisions
    assert old.ready is ConditionStatus.TRUE
    expected = ConditionStatus.UNKNOWN if told is None else ConditionStatus.FALSE
    assert (new.ready, (new.reason, new.message)) == (expected, told or ("", ""))


def test_an_engine_that_may_sleep_keeps_its_traffic_without_pods_and_waits_for_its_first_call() -> None:
    asleep, revisions = seen(service(4, least=0))
    assert revisions == ()
    assert asleep.all_traffic == pod_state(pod("b", 4, 5)).knative_revision
    assert asleep.initial_scale == 0
    assert seen(service(4, least=0), pod("b", 4, 5))[0].initial_scale == 1
    assert seen(service(4, least=1))[0].initial_scale == 1


def test_pods_of_converters_are_no_revisions() -> None:
    converter = pod("c", 3, 0)
    converter["spec"]["containers"] = [{"name": "converter", "env": []}]
    assert loaded_revision(converter) is None
    assert pod_state(converter).knative_revision == ""


def test_in_knative_mode_a_pod_is_named_by_its_label() -> None:
    labelled = pod("a", 3, 0)
    labelled["metadata"]["labels"] = {"serving.knative.dev/revision": "e1-predictor-00001"}
    assert pod_state(labelled).knative_revision == "e1-predictor-00001"
    knative = service(3)
    knative["status"] = {"deploymentMode": "Serverless"}
    assert service_state(knative).mode is DeploymentMode.KNATIVE
    assert service_state(knative).all_traffic is None
    assert revision_state(labelled).initial_scale == 1
