"""Quotas and the warm budget on a real API server: who waits, who stays awake, and that no revision is made for it."""

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.facts import held_scale
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    PATIENCE,
    REVISIONS,
    Bench,
    writes_of,
)
from tests.support.waiting import consistently, eventually


async def condition(bench: Bench, engine_id: str, kind: str) -> tuple[str, str]:
    found = await bench.condition(engine_id, kind)
    return found.get("status", ""), found.get("reason", "")


async def test_a_rollout_waits_for_room_in_its_sources_quota_and_one_of_higher_priority_goes_first(
    bench: Bench,
) -> None:
    first, low, high = (bench.serval.add_engine() for _ in range(3))
    await bench.make_source(
        quota={"awakeEngines": 1},
        serving={"gpu": {"count": 1}, "runtimeClassName": "nvidia", "priorityClassName": "live"},
    )
    await bench.start_operator()
    bench.serval.run_build(first.id, bench.archive())
    await bench.until_serves(first.id, 1)
    service = await bench.find(INFERENCE_SERVICES, f"e{first.id}")
    assert service is not None
    predictor = service["spec"]["predictor"]
    assert (predictor["runtimeClassName"], predictor["priorityClassName"]) == ("nvidia", "live")

    async def has_a_resource() -> None:
        for engine in (low, high):
            await bench.engine(engine.id)

    for engine in (low, high):
        bench.serval.run_build(engine.id, bench.archive())
    await eventually(has_a_resource, timeout=PATIENCE, describe=bench.describe)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{high.id}")
    await bench.cluster.merge(ref, {"spec": {"priority": 5}})

    async def both_wait() -> None:
        for engine in (low, high):
            assert await condition(bench, engine.id, "Progressing") == ("True", "QuotaExceeded")

    await eventually(both_wait, timeout=PATIENCE, describe=bench.describe)
    await consistently(both_wait, for_=2.0, describe=bench.describe)
    assert len(await bench.all(INFERENCE_SERVICES)) == 1
    bench.simulator.world.idle = 0.5
    for engine in (high, low):
        await bench.until_serves(engine.id, 1)
    assert writes_of(bench.writes(), "inferenceservices") == [
        f"patch e{engine.id} {code}" for engine, code in ((first, 201), (high, 201), (low, 201))
    ]


async def test_the_warm_budget_keeps_who_woke_last_and_a_pin_takes_its_place(bench: Bench) -> None:
    older, newer = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source(warmBudget={"engines": 1, "minResidency": "1s"})
    await bench.start_operator()
    made: dict[str, str] = {}

    async def held() -> set[str]:
        names = {one["metadata"]["name"] for one in await bench.all(REVISIONS) if held_scale(one)}
        return {engine for engine, revision in made.items() if revision in names}

    async def only(engine_id: str) -> None:
        assert await held() == {engine_id}

    for engine in (older, newer):
        bench.serval.run_build(engine.id, bench.archive())
        made[engine.id] = (await bench.until_serves(engine.id, 1))["serving"]["knativeRevision"]
        if engine is older:
            await eventually(lambda: only(older.id), timeout=PATIENCE, describe=bench.describe)
    await eventually(lambda: only(newer.id), timeout=PATIENCE, describe=bench.describe)
    bench.simulator.world.idle = 0.5

    async def awake(engine_id: str) -> None:
        for engine, revision in made.items():
            assert bool(await bench.pods_of(revision)) is (engine == engine_id), engine

    await eventually(lambda: awake(newer.id), timeout=PATIENCE, describe=bench.describe)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{older.id}")
    await bench.cluster.merge(ref, {"spec": {"keepWarm": True}})
    await eventually(lambda: awake(older.id), timeout=PATIENCE, describe=bench.describe)
    assert await held() == {older.id}
    assert sorted(bench.simulator.knative.created) == sorted(made.values()), "no revision was made for it"
