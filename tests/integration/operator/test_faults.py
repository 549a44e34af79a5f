"""Bad days: the operator dies between any two steps, Serval or the API server is away, a status is lost."""

import time
from collections.abc import Awaitable, Callable

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    REVISIONS,
    SECRETS,
    Bench,
    writes_of,
)
from tests.support.kube_simulator import Ending
from tests.support.waiting import consistently, eventually

Reached = Callable[[], Awaitable[bool]]


async def until(bench: Bench, reached: Reached) -> None:
    """Look as often as possible: the kill shall come right after the step."""
    await eventually(reached, timeout=PATIENCE, describe=bench.describe, interval=0.01)


async def test_b7_an_operator_that_dies_after_any_step_repeats_none(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    world = bench.simulator.world

    async def engine_made() -> bool:
        return bool(await bench.all(ENGINES))

    async def job_made() -> bool:
        return bool(await bench.all(JOBS))

    async def source_handed_over() -> bool:
        return any(one["metadata"]["name"].endswith("-source") for one in await bench.all(SECRETS))

    async def converted() -> bool:
        return len(bench.manifests()) == 1

    async def service_made() -> bool:
        return bool(await bench.all(INFERENCE_SERVICES))

    async def ready() -> bool:
        conditions = [
            c for one in await bench.all(REVISIONS) for c in one.get("status", {}).get("conditions", [])
        ]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    await bench.make_source()
    bench.serval.run_build(engine.id, bench.archive())
    world.conversions_may_end.clear()
    world.loads_may_end.clear()
    for step in (engine_made, job_made, source_handed_over):
        operator = await bench.start_operator()
        await until(bench, step)
        await operator.kill()
    world.conversions_may_end.set()
    await until(bench, converted)
    operator = await bench.start_operator()
    await until(bench, service_made)
    await operator.kill()
    world.loads_may_end.set()
    await until(bench, ready)
    await bench.start_operator()
    await bench.until_serves(engine.id, 1)

    writes = bench.writes()
    made = [one for one in writes_of(writes, "jobs") if one.startswith("create") and one.endswith("201")]
    assert len(made) == 1, made
    assert len(bench.simulator.knative.created) == 1
    assert len(bench.manifests()) == 1


async def test_a_rollout_goes_on_where_a_dead_operator_left_it(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    bench.simulator.world.loads_may_end.clear()
    bench.serval.run_build(engine.id, bench.archive("second"))

    async def second_revision_made() -> bool:
        return len(bench.simulator.knative.created) == 2

    await until(bench, second_revision_made)
    await operator.kill()
    bench.simulator.world.loads_may_end.set()
    await bench.start_operator()
    await bench.until_serves(engine.id, 2)
    assert len(bench.simulator.knative.created) == 2


async def test_serval_may_be_down_for_a_while_and_what_was_built_meanwhile_is_served_after(
    bench: Bench,
) -> None:
    first, second = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(first.id, bench.archive())
    await bench.until_serves(first.id, 1)
    bench.serval.down()
    bench.serval.run_build(first.id, bench.archive("again"))
    bench.serval.run_build(second.id, bench.archive())

    async def told() -> None:
        found = {one["type"]: one for one in (await bench.source_status())["conditions"]}["Connected"]
        assert (found["status"], found["reason"]) == ("False", "ServalUnreachable")

    async def serves_on() -> None:
        await bench.serves(first.id, 1)
        assert (await bench.condition(first.id, "Available"))["status"] == "True"

    await eventually(told, timeout=PATIENCE, describe=bench.describe)
    await consistently(serves_on, for_=4.0, describe=bench.describe)
    bench.serval.up()
    began = time.monotonic()
    await bench.until_serves(first.id, 2)
    await bench.until_serves(second.id, 1)
    assert time.monotonic() - began < 20
    assert len(await bench.all(ENGINES)) == 2


async def test_a_revision_that_fails_to_load_leaves_the_old_one_serving_and_says_why(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    ending = Ending(33, "ProbeMismatch", "probe 1 gives other tokens")
    world = bench.simulator.world
    world.load_ending = lambda given: ending if given["SERVAL_LIVE_MODEL_REVISION"] == "2" else None
    bench.serval.run_build(engine.id, bench.archive("second"))

    async def told() -> None:
        status = (await bench.engine(engine.id))["status"]
        failure = status["lastFailure"]
        assert (failure["reason"], failure["revision"]) == ("ProbeMismatch", 2)
        assert status["serving"]["revision"] == 1
        assert (await bench.condition(engine.id, "Available"))["status"] == "True"
        assert (await bench.condition(engine.id, "Degraded"))["reason"] == "RolloutFailed"

    await eventually(told, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    bench.serval.run_build(engine.id, bench.archive("third"))
    await bench.until_serves(engine.id, 3)


async def test_a_lost_status_is_rebuilt_without_a_conversion_and_without_a_restart(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    await operator.stop()
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    await bench.wipe_status(ref)
    assert "serving" not in (await bench.engine(engine.id)).get("status", {})
    mark = time.time()
    await bench.start_operator()
    await bench.until_serves(engine.id, 1)
    made = [one for one in writes_of(bench.writes(since=mark), "jobs") if one.startswith("create")]
    assert made == []
    assert len(bench.simulator.knative.created) == 1


async def test_a_rebuilt_cluster_finds_its_models_in_the_store(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source(installation="kept")
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    mark = time.time()
    await bench.cluster.delete(ObjectRef(ENGINES, bench.namespace, f"e{engine.id}"))

    async def made_anew() -> None:
        assert (await bench.engine(engine.id))["metadata"]["creationTimestamp"]
        await bench.serves(engine.id, 1)

    await eventually(made_anew, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    made = [one for one in writes_of(bench.writes(since=mark), "jobs") if one.startswith("create")]
    assert made == []


async def test_an_api_server_that_restarts_costs_nothing_but_time(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    bench.plane.restart_apiserver(kill=True)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
    assert len(bench.simulator.knative.created) == 2


async def test_idle_engines_asleep_or_awake_cost_no_write_but_the_lease(bench: Bench) -> None:
    engines = [bench.serval.add_engine() for _ in range(6)]
    await bench.make_source()
    await bench.start_operator(max_converting="6", max_rolling="6", collect_every="60")
    for engine in engines:
        bench.serval.run_build(engine.id, bench.archive())
    for engine in engines:
        await bench.until_serves(engine.id, 1)
    for engine in engines[3:]:
        ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
        await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 1}}})
    bench.simulator.world.idle = 1.0

    async def half_of_them_sleep() -> None:
        for wanted, some in (("Asleep", engines[:3]), ("Serving", engines[3:])):
            for engine in some:
                await bench.serves(engine.id, 1)
                assert (await bench.condition(engine.id, "Available"))["reason"] == wanted

    await eventually(half_of_them_sleep, timeout=PATIENCE, describe=bench.describe)
    await bench.settle(4.0)
    mark = time.time()
    await consistently(lambda: bench.writes(since=mark) == [], for_=10.0, describe=bench.describe)
    await half_of_them_sleep()
