"""The life of engines: from a finished build to a live service, to the next build, to the end."""

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    PODS,
    Bench,
    writes_of,
)
from tests.support.serval import EngineSpec, EngineType
from tests.support.waiting import consistently, eventually


async def test_a_finished_build_becomes_a_live_engine_and_the_next_one_replaces_it(bench: Bench) -> None:
    engine = bench.serval.add_engine(EngineSpec(name="team:ruth:1"))
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())

    status = await bench.until_serves(engine.id, 1)
    assert status["serving"]["url"].endswith(f"{bench.namespace}.svc.cluster.local")
    assert status["serving"]["modelName"] == f"e{engine.id}"
    assert (status["effective"]["source"], status["effective"]["target"]) == ("en", "es"), "as Serval says"
    assert (await bench.condition(engine.id, "Available"))["status"] == "True"
    assert (await bench.condition(engine.id, "UpToDate"))["status"] == "True"

    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
    assert [key.split("/")[1] for key in bench.manifests()] == ["r1", "r2"]
    assert len(bench.simulator.knative.created) == 2, "one Knative revision per model revision"

    bench.serval.delete_engine(engine.id)

    async def nothing_left() -> None:
        for resource in (ENGINES, INFERENCE_SERVICES, JOBS, PODS):
            assert await bench.all(resource) == []
        assert bench.manifests() == []

    await eventually(nothing_left, timeout=90, describe=bench.describe)


async def test_engines_that_cannot_be_served_get_no_resource_but_a_reason(bench: Bench) -> None:
    bench.serval.add_engine(EngineSpec(persisted=None, revision=3))
    bench.serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    bench.serval.add_engine(EngineSpec(revision=0))
    await bench.make_source()
    await bench.start_operator()

    async def counted() -> None:
        status = await bench.source_status()
        assert status["skipped"]["counts"] == {
            "EngineTypeUnsupported": 1,
            "ModelNotPersisted": 1,
            "NeverTrained": 1,
        }
        assert status["engines"] == {"seen": 3, "servable": 0, "serving": 0}

    await eventually(counted, timeout=PATIENCE, describe=bench.describe)
    assert await bench.all(ENGINES) == []


async def test_two_builds_close_together_end_with_the_newer_one_serving(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversions_may_end.clear()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_job(engine.id, revision=1)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_job(engine.id, revision=2)
    bench.simulator.world.conversions_may_end.set()

    await bench.until_serves(engine.id, 2)

    async def stays() -> None:
        await bench.serves(engine.id, 2)

    await consistently(stays, for_=2.0, describe=bench.describe)
    assert len(bench.simulator.knative.created) == 1, "the superseded revision was never rolled out"


async def test_a_broken_archive_leaves_the_old_revision_serving_and_the_next_build_heals_it(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)

    bench.serval.run_build(engine.id, bench.broken_archive())

    async def told() -> None:
        status = (await bench.engine(engine.id))["status"]
        assert status["lastFailure"]["reason"] == "BrokenArchive"
        assert status["lastFailure"]["revision"] == 2
        assert status["serving"]["revision"] == 1
        assert (await bench.condition(engine.id, "Available"))["status"] == "True"
        assert (await bench.condition(engine.id, "UpToDate"))["status"] == "False"
        assert (await bench.condition(engine.id, "Degraded"))["reason"] == "ConversionFailed"

    await eventually(told, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    bench.serval.run_build(engine.id, bench.archive("third"))
    await bench.until_serves(engine.id, 3)
    assert (await bench.condition(engine.id, "Degraded"))["status"] == "False"


async def test_a_missing_archive_is_asked_for_again_until_it_is_there(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, archive=None)

    async def told() -> None:
        status = (await bench.engine(engine.id)).get("status", {})
        assert status.get("lastFailure", {}).get("reason") == "SourceMissing"

    await eventually(told, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    bench.serval.archives.upload(engine.id, 1, bench.archive())
    await bench.until_serves(engine.id, 1)


async def test_a_person_serves_a_model_of_her_own_from_s3(bench: Bench) -> None:
    key = {"AWS_ACCESS_KEY_ID": bench.store.access_key, "AWS_SECRET_ACCESS_KEY": bench.store.secret_key}
    await bench.make_secret("store", key)
    bench.store.client().upload_file(str(bench.archive()), bench.bucket, "mine/base.tar.gz")
    model = {**bench.artifact_store(), "uri": f"s3://{bench.bucket}/mine/base.tar.gz"}
    body = {
        "metadata": {"name": "base", "namespace": bench.namespace},
        "spec": {"model": {**model, "revision": 1, "artifactStore": bench.artifact_store()}},
    }
    await bench.cluster.create(ENGINES, body)
    await bench.start_operator()

    async def serves() -> None:
        found = await bench.find(ENGINES, "base")
        assert found is not None
        assert found["status"]["serving"]["revision"] == 1

    await eventually(serves, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert all("/base-" in key for key in bench.objects() if not key.endswith("owner.json"))


async def test_a_suspended_engine_loses_its_workloads_and_comes_back_without_a_conversion(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    await bench.cluster.merge(ref, {"spec": {"suspended": True}})

    async def gone() -> None:
        assert await bench.all(INFERENCE_SERVICES) == []
        assert (await bench.condition(engine.id, "Available"))["reason"] == "Suspended"

    await eventually(gone, timeout=PATIENCE, describe=bench.describe)
    await bench.cluster.merge(ref, {"spec": {"suspended": False}})
    await bench.until_serves(engine.id, 1)
    made = [one for one in writes_of(bench.writes(), "jobs") if one.startswith("create")]
    assert len(made) == 1, "one conversion in its whole life"


async def test_a_store_without_its_key_is_named_exactly_and_works_once_the_key_is_there(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.make_secret(
        "store", {"aws_access_key_id": "x", "AWS_SECRET_ACCESS_KEY": bench.store.secret_key}
    )
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())

    async def named() -> None:
        found = {one["type"]: one for one in (await bench.source_status())["conditions"]}
        assert found["StorageReady"]["status"] == "False"
        assert "lacks the key AWS_ACCESS_KEY_ID" in found["StorageReady"]["message"]
        assert "'aws_access_key_id'" in found["StorageReady"]["message"]

    await eventually(named, timeout=PATIENCE, describe=bench.describe)
    assert await bench.all(JOBS) == []
    keys = {"AWS_ACCESS_KEY_ID": bench.store.access_key, "AWS_SECRET_ACCESS_KEY": bench.store.secret_key}
    await bench.make_secret("store", keys)
    await bench.until_serves(engine.id, 1)
