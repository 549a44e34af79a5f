"""The executor: actions in, changes of a small cluster out; what fails and what goes on."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from engine_operator.cluster.events import EventRecorder
from engine_operator.domain.actions import (
    Action,
    ApplyEngine,
    CollectArtifacts,
    ConversionPlan,
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
from engine_operator.domain.engine import Languages, ObjectStore, Resources
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId
from engine_operator.domain.observed import EngineStatus
from engine_operator.errors import (
    Forbidden,
    LeaseLost,
    ModelSuperseded,
    ModelUnavailable,
    ServalUnreachable,
    StoreUnreachable,
)
from engine_operator.executor import Executor, Outcome, summary
from engine_operator.serval.auth import ApiKeyAuth
from engine_operator.serval.client import ServalClient
from engine_operator.store.artifacts import ArtifactStore
from tests.support.fake_cluster import FakeCluster, status_answer

ENGINE_ID = EngineId("66c4a1f09d3e5b7a8c0f1e21")
REF = EngineRef(f"e{ENGINE_ID}", "ns", "uid-1")
KEY = ArtifactKey.of(ENGINE_ID, 3, ConversionOptions())
JOBS = "/apis/batch/v1/namespaces/ns/jobs"
ENGINES = "/apis/serval-live.dev/v1alpha1/namespaces/ns/translationengines"
PLAN = ConversionPlan(
    engine=REF,
    job="job-1",
    key=KEY,
    options=ConversionOptions(),
    attempt=1,
    attempt_id="a1-7f3c9e",
    image="image",
    destination="s3://b/x/",
    artifact_store=ObjectStore("s3://b/x"),
    source=None,
    languages=Languages(),
    resources=Resources(),
    deadline_seconds=60,
)


class Given:
    """A resolver that a test fills."""

    def __init__(self, download: httpx.Response | Exception | None = None) -> None:
        self.download = download
        self.collected: list[str] = []
        self.broken = False

    async def serval(self) -> ServalClient:
        def answer(_: httpx.Request) -> httpx.Response:
            assert self.download is not None
            if isinstance(self.download, Exception):
                raise self.download
            return self.download

        return ServalClient("https://serval", ApiKeyAuth("k"), transport=httpx.MockTransport(answer))

    async def store(self) -> ArtifactStore:
        return cast(ArtifactStore, self)

    async def collect(self, engine: EngineId, folder: str) -> int:
        if self.broken:
            raise StoreUnreachable("away")
        self.collected.append(f"{engine}:{folder}")
        return 1


async def run(cluster: FakeCluster, actions: Sequence[Action], given: Given | None = None) -> Outcome:
    """Carry out actions."""
    client = cluster.client()
    return await Executor(client, EventRecorder(client, "test"), given or Given()).run(actions)


async def test_a_job_is_made_once_and_an_existing_one_is_left_as_it_is() -> None:
    cluster = FakeCluster()
    assert (await run(cluster, [StartConversion(PLAN)])).error is None
    made = cluster.objects[f"{JOBS}/job-1"]
    assert (await run(cluster, [StartConversion(PLAN)])).error is None
    assert cluster.objects[f"{JOBS}/job-1"] is made


URL = {"url": "https://store/x?sig=1", "modelRevision": 3, "expiresAt": "2026-11-30T13:00:00Z"}
REFRESH = RefreshSourceUrl(REF, "job-1", "ruth", ENGINE_ID, 3)


async def test_the_presigned_url_goes_into_a_secret_that_the_job_owns() -> None:
    cluster = FakeCluster()
    await run(cluster, [StartConversion(PLAN), REFRESH], Given(httpx.Response(200, json=URL)))
    (secret,) = (body for path, body in cluster.objects.items() if "/secrets/" in path)
    assert secret["stringData"] == {"url": URL["url"]}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-of-job-1"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(200, json={**URL, "modelRevision": 4}), ModelSuperseded),
        (httpx.Response(500), ModelUnavailable),
        (httpx.Response(405), ModelUnavailable),
        (httpx.Response(404), ModelUnavailable),
        (httpx.Response(503), ServalUnreachable),
        (httpx.ReadError("reset"), ServalUnreachable),
    ],
)
async def test_a_url_of_another_revision_or_none_is_never_handed_over(
    answer: Any, error: type[Exception]
) -> None:
    cluster = FakeCluster()
    outcome = await run(cluster, [StartConversion(PLAN), REFRESH], Given(answer))
    assert type(outcome.error) is error
    assert outcome.failed is REFRESH
    assert not [path for path in cluster.objects if "/secrets/" in path]


async def test_no_url_is_fetched_for_a_job_that_is_gone() -> None:
    assert (await run(FakeCluster(), [REFRESH], Given())).error is None


async def test_the_first_failure_ends_the_list_since_what_follows_may_rest_on_it() -> None:
    cluster = FakeCluster()
    cluster.interfere = lambda request: (
        status_answer(403, "Forbidden", "no") if request.method == "POST" else None
    )
    status = WriteStatus(REF, EngineStatus(observed_generation=1))
    outcome = await run(cluster, [StartConversion(PLAN), status])
    assert isinstance(outcome.error, Forbidden)
    assert outcome.done == 0
    assert cluster.writes == [("POST", JOBS)]


async def test_garbage_that_cannot_be_collected_and_an_event_that_cannot_be_told_stop_nothing() -> None:
    cluster, given = FakeCluster(), Given()
    given.broken = True
    cluster.interfere = lambda request: (
        status_answer(403, "Forbidden", "no events") if "/events" in request.url.path else None
    )
    actions: list[Action] = [
        CollectArtifacts(ENGINE_ID, ("a/",), "why"),
        EmitEvent(REF, EventType.NORMAL, "Promoted", "yes"),
        WriteStatus(REF, EngineStatus(observed_generation=1)),
    ]
    assert (await run(cluster, actions, given)).error is None
    assert cluster.objects[f"{ENGINES}/{REF.name}"]["status"]["observedGeneration"] == 1


async def test_a_lost_lease_ends_even_what_may_fail_alone() -> None:
    def lost() -> None:
        raise LeaseLost("another leads")

    client = FakeCluster().client(guard=lost)
    event = EmitEvent(REF, EventType.NORMAL, "Promoted", "yes")
    outcome = await Executor(client, EventRecorder(client, "test"), Given()).run([event])
    assert isinstance(outcome.error, LeaseLost)


async def test_deleting_what_is_gone_is_no_failure() -> None:
    assert (await run(FakeCluster(), [DeleteJob(REF, "job-1", "why")])).error is None


async def test_a_discovered_engine_gets_its_source_its_labels_and_its_owner_and_nothing_else() -> None:
    cluster = FakeCluster()
    await run(cluster, [ApplyEngine(REF.name, "ns", "ruth", "uid-of-ruth", ENGINE_ID)])
    made = cluster.objects[f"{ENGINES}/{REF.name}"]
    assert made["spec"] == {"source": {"servalSource": "ruth", "engineId": ENGINE_ID}}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-ruth"
    assert "annotations" not in made["metadata"]


async def test_the_same_event_twice_is_one_event_with_a_count_also_from_another_process() -> None:
    cluster = FakeCluster()
    event = EmitEvent(REF, EventType.WARNING, "ConversionFailed", "revision 3: BrokenArchive")
    for _ in range(3):
        await run(cluster, [event])
    (told,) = (body for path, body in cluster.objects.items() if "/events/" in path)
    assert told["series"]["count"] == 3
    assert told["regarding"]["name"] == REF.name


REVISION = "/apis/serving.knative.dev/v1/namespaces/ns/revisions/e1-predictor-00001"


@pytest.mark.parametrize(
    ("replicas", "annotations"), [(2, {"autoscaling.knative.dev/min-scale": "2"}), (None, {})]
)
async def test_a_revision_is_held_by_one_annotation_and_no_other_field(
    replicas: int | None, annotations: dict[str, str]
) -> None:
    cluster = FakeCluster()
    cluster.put(REVISION, {"metadata": {"uid": "uid-r"}})
    await run(cluster, [HoldRevision(REF, "e1-predictor-00001", "uid-r", replicas)])
    assert cluster.writes == [("PATCH", REVISION)]
    sent = json.loads(cluster.requests[-1].content)
    assert sent["metadata"]["annotations"] == annotations
    assert set(sent) == {"apiVersion", "kind", "metadata"}
    assert set(sent["metadata"]) == {"name", "namespace", "uid", "annotations"}
    assert cluster.requests[-1].url.params["fieldManager"] == "serval-live"


async def test_a_revision_that_is_gone_and_one_that_may_not_be_held_stop_nothing() -> None:
    cluster = FakeCluster()
    status = WriteStatus(REF, EngineStatus(observed_generation=1))
    for code, reason in ((404, "NotFound"), (409, "Conflict"), (403, "Forbidden")):
        refusal = status_answer(code, reason, "no")
        cluster.interfere = lambda request, no=refusal: no if "/revisions/" in request.url.path else None  # type: ignore[misc]
        assert (await run(cluster, [HoldRevision(REF, "e1-predictor-00001", "u", 1), status])).error is None
    assert cluster.objects[f"{ENGINES}/{REF.name}"]["status"]["observedGeneration"] == 1


async def test_a_revision_that_was_made_again_or_is_gone_is_not_deleted() -> None:
    cluster = FakeCluster()
    cluster.put(REVISION, {"metadata": {"uid": "uid-r"}})
    action = DeleteRevision(REF, "e1-predictor-00001", "uid-of-another", "why")
    assert (await run(cluster, [action])).error is None
    assert REVISION in cluster.objects
    assert (await run(cluster, [replace(action, uid="uid-r")])).error is None
    assert REVISION not in cluster.objects
    assert (await run(cluster, [action])).error is None


def test_a_summary_names_what_it_is_about() -> None:
    for action in (StartConversion(PLAN), REFRESH, WriteStatus(REF, EngineStatus())):
        said = summary(action)
        assert type(action).__name__ in said
    assert "revision=3" in summary(StartConversion(PLAN))
