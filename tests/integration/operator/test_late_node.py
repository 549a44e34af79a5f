"""A node that comes late, on a real API server: p73."""

from tests.integration.operator.bench import PATIENCE, Bench, writes_of
from tests.support.waiting import consistently, eventually


def applies(bench: Bench) -> list[str]:
    """Writes of InferenceServices."""
    return writes_of(bench.writes(), "inferenceservices")


async def test_p73_a_node_that_comes_late_is_waited_for_and_the_first_revision_serves(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator()
    bench.simulator.world.nodes = 0
    bench.serval.run_build(engine.id, bench.archive())

    async def waits() -> None:
        found = await bench.condition(engine.id, "Progressing")
        assert "nodes are available" in found.get("message", ""), found
        status = (await bench.engine(engine.id))["status"]
        assert status["target"]["phase"] == "RollingOut"
        assert "lastFailure" not in status

    await eventually(waits, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    await consistently(waits, for_=3.0, interval=0.3, describe=bench.describe)
    bench.simulator.world.nodes = 100
    await bench.until_serves(engine.id, 1)
    assert len(bench.simulator.knative.created) == 1, "nothing was written off"
    assert len(applies(bench)) == 1
