"""Conversions against a real store: C1 upgrade, C2 lost Jobs, C3 lost sources, C6 halves, C8 addresses, C9 memory."""

import time

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import Json
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    PODS,
    SECRETS,
    SERVAL_SOURCES,
    Bench,
    writes_of,
)
from tests.integration.operator.test_a_handlers import told
from tests.support.kube_simulator import Ending
from tests.support.waiting import consistently, eventually


def created(bench: Bench, resource: str = "jobs") -> list[str]:
    """Objects of a kind that the operator made."""
    return [one for one in writes_of(bench.writes(), resource) if one.startswith("create") and "201" in one]


async def test_c1_an_upgrade_with_another_converter_changes_no_job_and_repeats_no_conversion(
    bench: Bench,
) -> None:
    done, at_work = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(done.id, bench.archive())
    await bench.until_serves(done.id, 1)
    bench.simulator.world.conversions_may_end.clear()
    bench.serval.run_build(at_work.id, bench.archive())
    old = await bench.until_job(at_work.id, revision=1)
    await operator.stop()
    await bench.start_operator(converter_image="dev.local/predictor@sha256:2")
    await bench.until_leads()

    async def untouched() -> None:
        job = await bench.until_job(at_work.id, revision=1)
        assert job["metadata"]["uid"] == old["metadata"]["uid"]

    await consistently(untouched, for_=3.0, interval=0.2, describe=bench.describe)
    bench.simulator.world.conversions_may_end.set()
    await bench.until_serves(at_work.id, 1)
    assert len(created(bench)) == 2
    changed = [one for one in writes_of(bench.writes(), "jobs") if one.startswith(("patch", "update"))]
    assert changed == []


async def test_c2_a_job_that_ended_and_was_removed_while_nobody_looked_is_not_repeated(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversions_may_end.clear()
    operator = await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    job = await bench.until_job(engine.id, revision=1)

    async def running() -> None:
        (pod,) = await bench.all(PODS)
        assert pod["status"]["phase"] == "Running"

    await eventually(running, timeout=PATIENCE, describe=bench.describe, retry_on=(ValueError, KeyError))
    await operator.stop()
    bench.simulator.world.conversions_may_end.set()
    await eventually(lambda: len(bench.manifests()) == 1, timeout=PATIENCE, describe=bench.describe)
    # What Kubernetes does once a Job's time to live has passed.
    await bench.cluster.delete(ObjectRef(JOBS, bench.namespace, job["metadata"]["name"]))
    await bench.start_operator()
    await bench.until_serves(engine.id, 1)
    assert len(created(bench)) == 1


async def test_c3_a_source_that_vanished_is_one_failure_and_the_next_build_goes_on(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    # Retries are minutes away: what happens next is the next build's doing.
    bench.simulator.world.conversion_ending = lambda given: (
        Ending(10, "SourceMissing", "the archive ended in the middle: 404")
        if given["--revision"] == "2"
        else None
    )
    bench.serval.run_build(engine.id, bench.archive("second"))

    async def failed() -> None:
        status = (await bench.engine(engine.id))["status"]
        assert (status["lastFailure"]["reason"], status["lastFailure"]["revision"]) == ("SourceMissing", 2)
        assert status["serving"]["revision"] == 1
        assert (await bench.condition(engine.id, "Degraded"))["status"] == "True"

    await eventually(failed, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    failures = [one for one in await told(bench) if " ConversionFailed " in one]
    assert len(failures) == 1
    bench.serval.run_build(engine.id, bench.archive("third"))
    await bench.until_serves(engine.id, 3)
    assert (await bench.condition(engine.id, "Degraded"))["status"] == "False"


async def test_c6_a_converter_that_was_killed_after_two_of_four_files_is_never_served(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    attempts: list[str] = []

    def killed_once(given: dict[str, str]) -> Ending | None:
        attempts.append(given["--attempt"])
        if len(attempts) > 1:
            return None
        bucket, _, folder = given["destination"].removeprefix("s3://").partition("/")
        for name in ("model.bin", "config.json"):
            key = f"{folder}{attempts[0]}/{name}"
            bench.store.client().put_object(Bucket=bucket, Key=key, Body=b"half")
        return Ending(137, "Killed")

    bench.simulator.world.conversion_ending = killed_once
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())

    async def failed() -> None:
        assert (await bench.engine(engine.id))["status"]["lastFailure"]["revision"] == 1

    await eventually(failed, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert await bench.all(INFERENCE_SERVICES) == []
    await bench.until_serves(engine.id, 1)
    first, second = attempts
    assert first != second, "each attempt has a folder of its own: nothing of the half is taken over"
    (service,) = await bench.all(INFERENCE_SERVICES)
    made = [one["requestReceivedTimestamp"] for one in bench.writes() if written(one, "inferenceservices")]
    published = bench.store.client().head_object(
        Bucket=bench.bucket, Key=next(key for key in bench.objects() if key.endswith("/manifest.json"))
    )["LastModified"]
    assert min(made) >= published.strftime("%Y-%m-%dT%H:%M:%S"), "the manifest was there first"
    assert service["metadata"]["name"] == f"e{engine.id}"


def written(entry: Json, resource: str) -> bool:
    reference = entry["objectRef"]
    return bool(reference["resource"] == resource and entry["verb"] in ("create", "patch"))


async def test_c8_an_address_in_an_annotation_is_named_before_anything_is_started(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    store = {key: value for key, value in bench.artifact_store().items() if key != "endpoint"}
    await bench.make_source(artifactStore=store)
    ref = ObjectRef(SECRETS, bench.namespace, "store")
    misspelt = "serving.kubeflow.org/s3-endpoint"
    address = bench.store.endpoint.removeprefix("http://")
    await bench.cluster.merge(ref, {"metadata": {"annotations": {misspelt: address}}})
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())

    async def named() -> None:
        found = {one["type"]: one for one in (await bench.source_status())["conditions"]}["StorageReady"]
        assert (found["status"], found["reason"]) == ("False", "StoreMisconfigured")
        for part in ("'store'", f"'{misspelt}'", "artifactStore.endpoint", f"http://{address}"):
            assert part in found["message"]

    await eventually(named, timeout=PATIENCE, describe=bench.describe)
    assert await bench.all(PODS) == []
    source = ObjectRef(SERVAL_SOURCES, bench.namespace, "ruth")
    endpoint = {"spec": {"artifactStore": {"endpoint": bench.store.endpoint}}}
    await bench.cluster.merge(source, endpoint)
    await bench.until_serves(engine.id, 1)


async def test_c9_a_model_that_needs_too_much_memory_is_tried_twice_and_holds_up_nobody(bench: Bench) -> None:
    large, small = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversion_ending = lambda given: (
        Ending(137, "", cause="OOMKilled") if given["--engine-id"] == large.id else None
    )
    await bench.start_operator()
    bench.serval.run_build(large.id, bench.archive())
    bench.serval.run_build(small.id, bench.archive())
    await bench.until_serves(small.id, 1)

    async def memory(engine_id: str) -> int:
        """What the latest Job of an engine may use, in MiB."""
        job = await bench.until_job(engine_id, revision=1)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        return int(container["resources"]["limits"]["memory"].removesuffix("Mi"))

    async def given_up() -> None:
        failure = (await bench.engine(large.id))["status"]["lastFailure"]
        assert failure["reason"] == "ConversionOutOfMemory"
        assert f"was allowed {await memory(large.id)}Mi" in failure["message"]
        assert (await bench.condition(large.id, "Degraded"))["reason"] == "RetriesExhausted"

    await eventually(given_up, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert len([one for one in created(bench) if large.id in one]) == 2, "one escalation"
    assert await memory(large.id) > 1.5 * await memory(small.id)
    mark = time.time()
    await consistently(
        lambda: writes_of(bench.writes(since=mark), "jobs") == [], for_=4.0, describe=bench.describe
    )
    assert len(await bench.all(ENGINES)) == 2


async def test_p72_a_removed_artifact_of_an_engine_at_rest_is_told_and_converted_once_beside_its_pods(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator(manifest_trust="30")
    bench.serval.run_build(engine.id, bench.archive())
    revision = (await bench.until_serves(engine.id, 1))["serving"]["knativeRevision"]
    await bench.settle()
    pods = {one["metadata"]["uid"] for one in await bench.pods_of(revision)}
    services = writes_of(bench.writes(), "inferenceservices")
    for job in await bench.all(JOBS):
        await bench.cluster.delete(ObjectRef(JOBS, bench.namespace, job["metadata"]["name"]))
    bench.simulator.world.conversions_may_end.clear()
    for key in bench.objects():
        if f"/{engine.id}/" in key:
            bench.store.client().delete_object(Bucket=bench.bucket, Key=key)

    async def told_gone() -> None:
        assert (await bench.condition(engine.id, "Available"))["reason"] == "ModelGone"
        assert len(await bench.all(JOBS)) == 1

    async def told_back() -> None:
        assert (await bench.condition(engine.id, "Available"))["status"] == "True"

    await eventually(told_gone, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert writes_of(bench.writes(), "inferenceservices") == services
    assert {one["metadata"]["uid"] for one in await bench.pods_of(revision)} == pods
    bench.simulator.world.conversions_may_end.set()
    await eventually(told_back, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert len(created(bench)) == 2
