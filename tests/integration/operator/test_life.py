"""The life of engines: from a finished build to a live service, to the next build, to the end."""

from tests.integration.operator.bench import ENGINES, INFERENCE_SERVICES, JOBS, PATIENCE, PODS, Bench
from tests.support.serval import EngineSpec
from tests.support.waiting import eventually


async def test_a_finished_build_becomes_a_live_engine_and_the_next_one_replaces_it(bench: Bench) -> None:
    engine = bench.serval.add_engine(EngineSpec(name="team:ruth:1"))
    await bench.make_source()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())

    async def first_serves() -> None:
        await bench.serves(engine.id, 1)

    await eventually(first_serves, timeout=PATIENCE, describe=bench.describe)
    status = await bench.serves(engine.id, 1)
    assert status["serving"]["url"].endswith(f"{bench.namespace}.svc.cluster.local")
    assert (await bench.condition(engine.id, "Available"))["status"] == "True"
    assert (await bench.condition(engine.id, "UpToDate"))["status"] == "True"

    bench.serval.run_build(engine.id, bench.archive("second"))

    async def second_serves() -> None:
        await bench.serves(engine.id, 2)

    await eventually(second_serves, timeout=PATIENCE, describe=bench.describe)
    assert [key.split("/")[1] for key in bench.manifests()] == ["r1", "r2"]
    assert len(bench.simulator.knative.created) == 2

    bench.serval.delete_engine(engine.id)

    async def nothing_left() -> None:
        for resource in (ENGINES, INFERENCE_SERVICES, JOBS, PODS):
            assert await bench.all(resource) == []
        assert bench.manifests() == []

    await eventually(nothing_left, timeout=90, describe=bench.describe)
