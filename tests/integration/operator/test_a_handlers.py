"""What handlers must not do: copy objects (A8), write to others' kinds (A11), lose edits (A16), flood Events (A18)."""

import time

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import EVENTS, Json
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    SECRETS,
    Bench,
    writes_of,
)
from tests.support.serval import EngineSpec
from tests.support.waiting import case_seconds, consistently, eventually, time_factor

BIG = "x" * 200 * 1024
OURS = ("servalsources", "translationengines")


async def test_a8_objects_near_the_limit_get_no_copy_of_themselves(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    release = {"metadata": {"name": "sh.helm.release.v1.x.v1", "namespace": bench.namespace}, "data": {}}
    release["data"] = {"release": "eHh4" * (BIG.count("x") // 4)}
    await bench.cluster.create(SECRETS, release)
    note = {"example.org/note": BIG}
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    await bench.cluster.merge(ref, {"metadata": {"annotations": note}})
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
    live = await bench.cluster.get(ref)
    assert live["metadata"]["annotations"] == note
    helm = await bench.cluster.get(ObjectRef(SECRETS, bench.namespace, "sh.helm.release.v1.x.v1"))
    assert "annotations" not in helm["metadata"]
    assert [one for one in writes_of(bench.writes(), "secrets") if "helm" in one] == []


async def test_a11_a_whole_life_writes_a_status_of_nothing_but_our_own_kinds(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    bench.serval.add_engine(EngineSpec(persisted=None, revision=3))
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    bench.serval.run_build(engine.id, bench.broken_archive())
    await eventually(lambda: failed(bench, engine.id), timeout=PATIENCE, describe=bench.describe)
    bench.serval.run_build(engine.id, bench.archive("third"))
    await bench.until_serves(engine.id, 3)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    await bench.cluster.merge(ref, {"spec": {"suspended": True}})
    await eventually(lambda: gone(bench), timeout=PATIENCE, describe=bench.describe)
    bench.serval.delete_engine(engine.id)

    async def deleted() -> None:
        assert await bench.all(ENGINES) == []

    await eventually(deleted, timeout=60, describe=bench.describe)
    writes = bench.writes()
    statuses = {one["objectRef"]["resource"] for one in writes if one["objectRef"].get("subresource")}
    assert statuses == set(OURS)
    assert {one["userAgent"] for one in writes} == {"serval-live-operator"}, "the watches only watch"


async def failed(bench: Bench, engine_id: str) -> bool:
    return "lastFailure" in (await bench.engine(engine_id)).get("status", {})


async def gone(bench: Bench) -> bool:
    return await bench.all(INFERENCE_SERVICES) == []


async def test_a16_what_people_wrote_last_is_what_becomes_of_it(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversions_may_end.clear()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_job(engine.id, revision=1)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    for round_ in range(20):
        for suspended in (True, False, True):
            await bench.cluster.merge(ref, {"spec": {"suspended": suspended}})
        if round_ == 10:
            bench.simulator.world.conversions_may_end.set()

    async def suspended_for_good() -> None:
        assert (await bench.condition(engine.id, "Available"))["reason"] == "Suspended"
        found = await bench.engine(engine.id)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert await bench.all(INFERENCE_SERVICES) == []
        assert await bench.all(JOBS) == []

    await eventually(suspended_for_good, timeout=case_seconds(30, PATIENCE), describe=bench.describe)
    await bench.cluster.merge(ref, {"spec": {"suspended": False}})
    await bench.until_serves(engine.id, 1)
    for resource in (ENGINES, INFERENCE_SERVICES):
        assert len(await bench.all(resource)) == 1
    assert len(bench.manifests()) == 1
    assert "finalizers" not in (await bench.engine(engine.id))["metadata"]


async def told(bench: Bench) -> dict[str, int]:
    """Events of the operator, each with how often it was told."""
    found: list[Json] = [
        one for one in await bench.all(EVENTS) if one.get("reportingController", "").startswith("serval-live")
    ]
    return {
        f"{one['regarding']['name']} {one['reason']} {one['note']}": one.get("series", {}).get("count", 1)
        for one in found
    }


async def test_a18_a_restart_and_three_sweeps_tell_nothing_that_was_told(bench: Bench) -> None:
    count = 500 if time_factor() >= 1 else 6
    bench.simulator.world.nodes = count
    engines = [bench.serval.add_engine() for _ in range(count)]
    for _ in range(3):
        bench.serval.add_engine(EngineSpec(persisted=None, revision=3))
    await bench.make_source()
    operator = await bench.start_operator(max_converting="100", max_rolling="100")
    for engine in engines:
        bench.serval.run_build(engine.id, bench.archive())
    for engine in engines:
        await bench.until_serves(engine.id, 1, timeout=2 * PATIENCE)
    await bench.settle(3.0)
    before = await told(bench)
    for engine in engines:
        mine = [one.split(" ")[1] for one in before if one.startswith(f"e{engine.id} ")]
        assert len(mine) == len(set(mine)), "one for each transition"
        assert {"ConversionStarted", "RolloutStarted", "Promoted"} <= set(mine)
    assert len([one for one in before if " ModelNotPersisted " in one]) == 3
    assert set(before.values()) == {1}
    await operator.stop()
    await bench.start_operator()
    await bench.until_leads()
    mark = time.time()

    async def silent() -> None:
        assert await told(bench) == before

    await consistently(silent, for_=case_seconds(3 * 60, 8.0), interval=0.5, describe=bench.describe)
    assert writes_of(bench.writes(since=mark), "events") == []
