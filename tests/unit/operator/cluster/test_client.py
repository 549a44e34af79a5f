"""The API client: typed errors, patience with a busy server, and a guard before every write."""

import asyncio
import time

import httpx
import pytest

from engine_operator.cluster.client import Limits, ObjectRef
from engine_operator.cluster.connection import Quiet
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, JOBS, NAMESPACES, REVISIONS
from engine_operator.errors import (
    AlreadyExists,
    ClusterBusy,
    ClusterError,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    Outdated,
    Rejected,
    WebhookFailed,
)
from engine_operator.settings import Settings
from tests.support.cases import case
from tests.support.fake_cluster import FakeCluster, status_answer
from tests.support.waiting import eventually

REF = ObjectRef(JOBS, "ns", "job")
PATH = "/apis/batch/v1/namespaces/ns/jobs/job"


def test_paths_of_all_shapes() -> None:
    assert NAMESPACES.path(None, "kube-system") == "/api/v1/namespaces/kube-system"
    assert JOBS.path(None) == "/apis/batch/v1/jobs"
    wanted = "/apis/serval-live.dev/v1alpha1/namespaces/ns/translationengines/x/status"
    assert ENGINES.path("ns", "x", "status") == wanted


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status_answer(404, "NotFound", "no"), NotFound),
        (status_answer(409, "AlreadyExists", "there"), AlreadyExists),
        (status_answer(409, "Conflict", "the object has been modified"), Outdated),
        (status_answer(403, "Forbidden", "may not"), Forbidden),
        (status_answer(401, "Unauthorized", "who"), Forbidden),
        (status_answer(422, "Invalid", "wrong"), Rejected),
        (status_answer(403, "Forbidden", 'admission webhook "x" denied the request: no'), Rejected),
        (status_answer(410, "Expired", "continue"), ClusterUnreachable),
        (status_answer(503, "ServiceUnavailable", "away"), ClusterUnreachable),
        (httpx.Response(502, text="<html>"), ClusterUnreachable),
    ],
)
async def test_each_refusal_has_one_meaning(answer: httpx.Response, error: type[ClusterError]) -> None:
    cluster = FakeCluster()
    cluster.interfere = lambda _: answer
    with pytest.raises(error) as caught:
        await cluster.client().create(JOBS, {"metadata": {"name": "job", "namespace": "ns"}})
    assert type(caught.value) is error


async def test_in_standard_mode_a_cluster_without_knatives_kinds_has_no_revisions_and_is_none_too_few() -> (
    None
):
    cluster = FakeCluster()
    cluster.interfere = lambda _: status_answer(
        404, "NotFound", "the server could not find the requested resource"
    )
    standard, knative = Settings(deployment_mode="Standard"), Settings()
    without = cluster.client(may_lack=standard.may_lack())
    assert [one async for one in without.list(REVISIONS, "ns")] == []
    with pytest.raises(NotFound):
        assert [one async for one in without.list(INFERENCE_SERVICES, "ns")]
    with pytest.raises(NotFound):
        assert [one async for one in cluster.client(may_lack=knative.may_lack()).list(REVISIONS, "ns")]


async def test_a_webhook_that_is_away_is_named_and_worth_another_try() -> None:
    said = 'Internal error occurred: failed calling webhook "inferenceservice.kserve-webhook": no endpoints available'
    cluster = FakeCluster()
    cluster.interfere = lambda _: status_answer(500, "InternalError", said)
    with pytest.raises(WebhookFailed) as caught:
        await cluster.client().apply(INFERENCE_SERVICES, {"metadata": {"name": "x", "namespace": "ns"}})
    assert caught.value.webhook == "inferenceservice.kserve-webhook"
    assert caught.value.retryable


async def test_a_field_of_another_manager_is_a_conflict_that_names_it() -> None:
    body = {
        "reason": "Conflict",
        "message": 'Apply failed with 1 conflict: conflict with "kubectl-edit": .spec.predictor.maxReplicas',
        "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".spec.predictor.maxReplicas"}]},
    }
    cluster = FakeCluster()
    cluster.interfere = lambda _: httpx.Response(409, json=body)
    with pytest.raises(Conflict, match="kubectl-edit"):
        await cluster.client().apply(INFERENCE_SERVICES, {"metadata": {"name": "x", "namespace": "ns"}})


async def test_applies_carry_our_manager_and_are_never_forced() -> None:
    cluster = FakeCluster()
    await cluster.client().apply(JOBS, {"metadata": {"name": "job", "namespace": "ns"}})
    (request,) = cluster.requests
    assert dict(request.url.params) == {"fieldManager": "serval-live", "force": "false"}
    assert request.headers["content-type"] == "application/apply-patch+yaml"


async def test_a_busy_server_is_asked_again_only_after_what_it_asked_for_and_by_no_call_earlier() -> None:
    cluster = FakeCluster()
    cluster.put(PATH, {})
    refusals = [httpx.Response(429, headers={"Retry-After": "0.2"}, json={})]
    times: list[float] = []

    def busy_once(_: httpx.Request) -> httpx.Response | None:
        times.append(time.monotonic())
        return refusals.pop() if refusals else None

    cluster.interfere = busy_once
    client = cluster.client()
    await client.get(REF)
    assert len(times) == 2
    assert times[1] - times[0] >= 0.2


@case("A3", breaks="engine_operator.cluster.connection:Quiet.left", naive=lambda _: 0.0)
async def test_a3_what_a_busy_server_asked_of_one_client_binds_all_of_the_process() -> None:
    cluster, quiet, asked = FakeCluster(), Quiet(), 0.3
    cluster.put(PATH, {})
    refusals = [httpx.Response(429, headers={"Retry-After": str(asked)}, json={})]
    times: list[float] = []

    def busy_once(_: httpx.Request) -> httpx.Response | None:
        times.append(time.monotonic())
        return refusals.pop() if refusals else None

    cluster.interfere = busy_once
    first, second = cluster.client(quiet=quiet), cluster.client(quiet=quiet)
    refused = asyncio.create_task(first.get(REF))
    await eventually(lambda: len(times) == 1, interval=0.01)
    await asyncio.gather(refused, second.get(REF))
    assert [moment - times[0] >= asked for moment in times] == [False, True, True]


async def test_a_server_that_stays_busy_ends_the_call_with_what_it_asked_for() -> None:
    cluster = FakeCluster()
    cluster.interfere = lambda _: httpx.Response(429, json={"details": {"retryAfterSeconds": 7}})
    with pytest.raises(ClusterBusy) as caught:
        await cluster.client(limits=Limits(patience=1.0)).get(REF)
    assert caught.value.retry_after == pytest.approx(7, abs=0.1)
    assert len(cluster.requests) == 1


async def test_a_guard_refuses_every_write_and_no_read() -> None:
    def lost() -> None:
        raise LeaseLost("another leads")

    cluster = FakeCluster()
    cluster.put(PATH, {"metadata": {"name": "job"}})
    client = cluster.client(guard=lost)
    await client.get(REF)
    body = {"metadata": {"name": "job", "namespace": "ns"}}
    for write in (
        client.create(JOBS, body),
        client.apply(JOBS, body),
        client.replace(JOBS, body),
        client.merge(REF, {}),
        client.delete(REF),
    ):
        with pytest.raises(LeaseLost):
            await write
    assert cluster.writes == []


async def test_a_list_goes_through_all_pages_and_is_never_short() -> None:
    cluster = FakeCluster()
    pages = {
        None: {"items": [{"n": 1}], "metadata": {"continue": "more"}},
        "more": {"items": [{"n": 2}], "metadata": {}},
    }
    cluster.interfere = lambda request: httpx.Response(200, json=pages[request.url.params.get("continue")])
    assert [one["n"] async for one in cluster.client().list(JOBS, "ns", labels="a=b")] == [1, 2]
    assert all(request.url.params["labelSelector"] == "a=b" for request in cluster.requests)
    cluster.interfere = lambda request: (
        httpx.Response(200, json=pages[None]) if "continue" not in request.url.params else httpx.Response(503)
    )
    with pytest.raises(ClusterUnreachable):
        [one async for one in cluster.client().list(JOBS, "ns")]


async def test_deleting_what_is_gone_is_no_error_and_a_uid_makes_it_this_very_one() -> None:
    cluster = FakeCluster()
    assert not await cluster.client().delete(REF)
    await cluster.client().delete(ObjectRef(JOBS, "ns", "job", uid="u1"), propagation="Foreground")
    assert b'"preconditions":{"uid":"u1"}' in cluster.requests[-1].content
    assert b"Foreground" in cluster.requests[-1].content
