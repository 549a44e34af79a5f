"""A survey: all engines by a few lists, each with what is its own."""

from engine_operator.cluster.reader import ClusterReader, EngineObjects, Packed
from engine_operator.cluster.resources import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PODS,
    REVISIONS,
    Json,
    Resource,
)
from tests.support.fake_cluster import FakeCluster


def put(cluster: FakeCluster, resource: Resource, name: str, engine: str | None = None) -> None:
    labels = {"serval-live.dev/engine": engine} if engine else {}
    metadata: Json = {"name": name, "namespace": "live", "uid": f"u-{name}", "labels": labels}
    cluster.put(resource.path("live", name), {"metadata": metadata, "spec": {"of": engine}})


def two_engines() -> FakeCluster:
    cluster = FakeCluster()
    for engine in ("a", "b"):
        put(cluster, ENGINES, engine)
        put(cluster, INFERENCE_SERVICES, engine, engine)
    for resource, name in ((JOBS, "j1"), (JOBS, "j2"), (PODS, "p1"), (REVISIONS, "r1")):
        put(cluster, resource, name, "b")
    put(cluster, PODS, "stray", "nobody")
    return cluster


def names(objects: EngineObjects) -> list[str]:
    service = [objects.service] if objects.service else []
    found = [objects.engine, *service, *objects.jobs, *objects.pods, *objects.revisions]
    return [str(one["metadata"]["name"]) for one in found]


async def test_a_survey_gives_each_engine_what_its_label_names_and_nobody_the_rest() -> None:
    async with two_engines().client() as client:
        survey = await ClusterReader(client).survey("live", revisions=True)
    assert {name: names(one) for name, one in survey.engines.items()} == {
        "a": ["a", "a"],
        "b": ["b", "b", "j1", "j2", "p1", "r1"],
    }
    assert survey.complete
    assert "nobody" not in survey.engines


def test_what_was_packed_comes_out_as_it_was() -> None:
    one: Json = {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"text": "ß"}}
    whole = EngineObjects(one, jobs=(one,), pods=(one, one))
    packed = Packed.of(whole)
    assert packed.objects() == whole
    assert packed.marks == whole.fingerprint()
