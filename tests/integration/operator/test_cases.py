"""Handed situations that shape the design: A4, A9, B1, B12, D1, D11, E4."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import LEASES, Json
from engine_operator.errors import NotFound
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    REVISIONS,
    Bench,
    OperatorProcess,
    writes_of,
)
from tests.integration.operator.process import received
from tests.support.serval import EngineSpec
from tests.support.waiting import consistently, eventually

SWEEP = 60 / 30
"""Seconds between two sweeps: the bench's setting, in its time."""


async def test_a4_two_operators_and_a_rolling_update_give_one_writer_and_no_double_work(bench: Bench) -> None:
    engines = [bench.serval.add_engine() for _ in range(10)]
    await bench.make_source()
    users = [f"operator-{n}-of-{bench.namespace}" for n in range(3)]
    first, second = [await start_as(bench, user) for user in users[:2]]

    async def lease() -> Json:
        found = await bench.cluster.get(ObjectRef(LEASES, bench.namespace, "serval-live-operator"))
        spec: Json = found["spec"]
        assert spec["holderIdentity"]
        return spec

    old = await eventually(lease, timeout=PATIENCE, describe=bench.describe, retry_on=(NotFound,))
    for engine in engines[:5]:
        bench.serval.run_build(engine.id, bench.archive())
    await bench.until_job(engines[0].id, revision=1)
    leading = first if "leading" in first.log.read_text() else second
    await leading.kill()
    killed = datetime.now(UTC)
    for engine in engines[5:]:
        bench.serval.run_build(engine.id, bench.archive())
    await start_as(bench, users[2])

    async def another() -> datetime:
        new = await lease()
        assert new["holderIdentity"] != old["holderIdentity"]
        return datetime.fromisoformat(new["acquireTime"])

    taken = await eventually(another, timeout=PATIENCE, describe=bench.describe)
    assert taken - killed <= timedelta(seconds=old["leaseDurationSeconds"] + 5.0), (
        "lease time and five seconds"
    )
    for engine in engines:
        await bench.until_serves(engine.id, 1)
    made = [one for one in writes_of(bench.writes(), "jobs") if one.startswith("create")]
    assert len([one for one in made if one.endswith("201")]) == 10, made
    assert len(bench.simulator.knative.created) == 10
    assert len([one for one in bench.operators if one.process.returncode is None]) == 2
    one_writer_at_a_time(bench)


def one_writer_at_a_time(bench: Bench) -> None:
    """From the audit log: whoever writes is who wrote the Lease last. Both may change hands more often than wanted."""
    leads = sorted((received(one), user_of(one)) for one in bench.lease_writes() if succeeded(one))
    writes = sorted((received(one), user_of(one)) for one in bench.writes())
    assert len({user for _, user in writes}) >= 2, "the one that took over wrote too"
    strays = [
        f"{user} at {at}"
        for at, user in writes
        if [leader for taken, leader in leads if taken <= at][-1:] != [user]
    ]
    assert strays == []


def user_of(entry: Json) -> str:
    return str(entry["user"]["username"])


def succeeded(entry: Json) -> bool:
    return bool(entry["responseStatus"]["code"] in (200, 201))


async def start_as(bench: Bench, user: str) -> OperatorProcess:
    """An operator with a user of its own, so that the audit log tells the processes apart."""
    return await bench.start_operator(kubeconfig=str(bench.plane.kubeconfig_for(user, ("system:masters",))))


async def test_a9_restarts_resyncs_and_flapping_statuses_write_nothing_to_an_inferenceservice(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    await bench.settle()
    mark = time.time()
    for _ in range(3):
        await operator.stop()
        operator = await bench.start_operator()
        await bench.until_leads()
    name = f"e{engine.id}"
    ref = ObjectRef(INFERENCE_SERVICES, bench.namespace, name)
    for flip in range(20):
        status = {"conditions": [{"type": "Ready", "status": "True" if flip % 2 else "False"}]}
        await bench.flip_status(ref, status)
    await bench.settle()
    service = await bench.cluster.get(ref)
    assert writes_of(bench.writes(since=mark), "inferenceservices") == []
    assert len(bench.simulator.knative.created) == 1
    keys = [*service["metadata"].get("annotations", {}), *service["metadata"].get("labels", {})]
    assert not [key for key in keys if "kopf" in key]
    assert "finalizers" not in service["metadata"]
    for resource in (ENGINES, INFERENCE_SERVICES, JOBS, REVISIONS):
        for item in await bench.all(resource):
            assert not [key for key in item["metadata"].get("annotations", {}) if "kopf" in key]


async def test_b1_builds_that_finish_while_the_cursor_is_deleted_are_served_within_a_sweep(
    bench: Bench,
) -> None:
    x, y, z = (bench.serval.add_engine() for _ in range(3))
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(x.id, bench.archive())
    await bench.until_serves(x.id, 1)
    await bench.until_cursor(x.id)
    await operator.stop()
    bench.serval.delete_engine(x.id)
    for engine in (y, z):
        bench.serval.run_build(engine.id, bench.archive())
    await bench.start_operator()
    await bench.until_leads()
    began = time.monotonic()

    async def wanted_by_the_sweep() -> None:
        for engine in (y, z):
            assert (await bench.engine(engine.id))["status"]["target"]["revision"] == 1

    await eventually(wanted_by_the_sweep, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    assert time.monotonic() - began <= SWEEP + 8.0, "a sweep, after a process that has begun"
    for engine in (y, z):
        await bench.until_serves(engine.id, 1)

    async def counted() -> None:
        assert await bench.metric("serval_live_missed_builds_total") == 2

    await eventually(counted, timeout=PATIENCE, describe=bench.describe)
    bench.serval.run_build(y.id, bench.archive("second"))
    await bench.until_serves(y.id, 2)
    await consistently(counted, for_=2 * SWEEP, describe=bench.describe)


async def test_b12_empty_short_and_foreign_lists_delete_nothing(bench: Bench) -> None:
    engines = [bench.serval.add_engine(EngineSpec(revision=1)) for _ in range(40)]
    for engine in engines:
        bench.serval.archives.upload(engine.id, 1, bench.archive())
    await bench.make_source()
    await bench.start_operator(max_converting="40", max_rolling="40")

    async def all_there() -> None:
        assert len(await bench.all(ENGINES)) == 40

    await eventually(all_there, timeout=PATIENCE, describe=bench.describe)
    bench.serval.shorten_lists(0, times=1)
    await consistently(all_there, for_=5.0, describe=bench.describe)
    bench.serval.shorten_lists(3, times=2)
    await consistently(all_there, for_=7.0, describe=bench.describe)
    await bench.make_secret("serval-key", {"api-key": bench.serval.add_key("naomi")})
    await consistently(all_there, for_=12.0, describe=bench.describe)
    degraded = {one["type"]: one for one in (await bench.source_status())["conditions"]}["Degraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "NotOurs")


async def test_b12_a_mass_deletion_is_held_until_a_person_releases_exactly_that_many(bench: Bench) -> None:
    engines = [bench.serval.add_engine(EngineSpec(revision=1)) for _ in range(10)]
    await bench.make_source()
    await bench.start_operator()

    async def there(count: int) -> None:
        assert len(await bench.all(ENGINES)) == count

    await eventually(lambda: there(10), timeout=PATIENCE, describe=bench.describe)
    for engine in engines[:6]:
        bench.serval.delete_engine(engine.id)

    async def held() -> None:
        found = {one["type"]: one for one in (await bench.source_status())["conditions"]}["Degraded"]
        assert found["reason"] == "MassDeletionHeld"
        assert engines[0].id in found["message"]

    await eventually(held, timeout=60, describe=bench.describe)
    await there(10)
    await bench.annotate_source({"serval-live.dev/allow-mass-deletion": "5"})
    await consistently(lambda: there(10), for_=5.0, describe=bench.describe)
    await bench.annotate_source({"serval-live.dev/allow-mass-deletion": "6"})
    await eventually(lambda: there(4), timeout=PATIENCE, describe=bench.describe)


async def test_d1_a_namespace_that_leaves_no_room_is_refused_at_the_start_with_the_numbers(
    bench: Bench,
) -> None:
    operator = await bench.start_operator(namespace="n" * 40)
    assert await asyncio.wait_for(operator.process.wait(), PATIENCE) == 2
    operator.ended = True
    said = operator.log.read_text()
    assert "40 characters" in said
    assert "at most 20" in said


async def test_d11_defaults_of_webhooks_are_no_drift_and_a_persons_edit_is_corrected_once(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    ref = ObjectRef(INFERENCE_SERVICES, bench.namespace, f"e{engine.id}")
    await bench.edit(ref, "kserve-webhook", ["spec", "predictor", "logger"], {"mode": "all"})
    await bench.settle()
    mark = time.time()
    await bench.edit(ref, "a-person", ["spec", "predictor", "canaryTrafficPercent"], 50)
    await bench.settle(3.0)
    assert writes_of(bench.writes(since=mark), "inferenceservices") == [], "fields of others are left alone"
    assert (await bench.cluster.get(ref))["spec"]["predictor"]["canaryTrafficPercent"] == 50

    await bench.edit(ref, "a-person", ["spec", "predictor", "maxReplicas"], 7)

    async def corrected() -> None:
        assert (await bench.cluster.get(ref))["spec"]["predictor"]["maxReplicas"] == 1

    await eventually(corrected, timeout=PATIENCE, describe=bench.describe)
    await bench.settle()
    mark = time.time()
    await bench.edit(ref, "a-person", ["spec", "predictor", "maxReplicas"], 8)
    await bench.settle(4.0)
    assert writes_of(bench.writes(since=mark), "inferenceservices") == [], "no fight with a person"
    assert (await bench.condition(engine.id, "Degraded"))["reason"] == "ForeignFieldOwner"


async def test_e4_artifacts_go_only_after_everything_that_names_them(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator(collect_every="30")
    for revision in range(1, 7):
        bench.serval.run_build(engine.id, bench.archive(f"model{revision}"))
        await bench.until_serves(engine.id, revision)
    assert len(bench.simulator.knative.created) == 6
    await bench.settle(4.0)
    assert [key.split("/")[1] for key in bench.manifests()] == [f"r{n}" for n in range(1, 7)], (
        "every Knative revision may wake"
    )
    second = bench.simulator.knative.created[1]
    bench.simulator.knative.call(second)

    async def awake() -> None:
        found = await bench.pods_of(second)
        assert any(
            one["type"] == "Ready" and one["status"] == "True" for one in found[0]["status"]["conditions"]
        )

    await eventually(awake, timeout=PATIENCE, describe=bench.describe, retry_on=(IndexError, KeyError))
    for name in bench.simulator.knative.created[:4]:
        await bench.cluster.delete(ObjectRef(REVISIONS, bench.namespace, name))

    async def only_what_is_needed() -> None:
        assert [key.split("/")[1] for key in bench.manifests()] == ["r5", "r6"]

    await eventually(only_what_is_needed, timeout=60, describe=bench.describe)
