"""KServe's Standard mode: the real Deployment controller rolls the pods, and the operator follows what they run."""

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import ENGINES, INFERENCE_SERVICES, PATIENCE, PODS, REVISIONS, Bench
from tests.support.kube_simulator.standard import StandardMode
from tests.support.waiting import eventually


async def test_an_engine_rolls_as_a_deployment_and_what_the_mode_cannot_do_is_refused(bench: Bench) -> None:
    steady, sleeper = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source(serving={"minReplicas": 1})
    async with StandardMode(bench.plane.kubeconfig, bench.namespace):
        await bench.start_operator(deployment_mode="Standard")
        bench.serval.run_build(steady.id, bench.archive())
        first = (await bench.until_serves(steady.id, 1))["serving"]
        assert first["url"].startswith(f"http://e{steady.id}-predictor.")
        service = await bench.find(INFERENCE_SERVICES, f"e{steady.id}")
        assert service is not None
        assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "hpa"
        assert [one["containerPort"] for one in service["spec"]["predictor"]["containers"][0]["ports"]] == [
            8080,
            8081,
        ]

        bench.serval.run_build(steady.id, bench.archive())
        second = (await bench.until_serves(steady.id, 2))["serving"]
        assert second["knativeRevision"] != first["knativeRevision"]

        async def one_pod_of_the_new_model() -> None:
            (pod,) = [one for one in await bench.all(PODS) if "job-name" not in one["metadata"]["labels"]]
            variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
            assert variables["SERVAL_LIVE_MODEL_REVISION"] == "2"

        await eventually(
            one_pod_of_the_new_model, timeout=PATIENCE, describe=bench.describe, retry_on=(ValueError,)
        )

        async def refused() -> None:
            told = await bench.condition(sleeper.id, "Progressing")
            assert told.get("reason") == "ModeUnsupported", told
            assert "minReplicas is 0" in told["message"]

        bench.serval.run_build(sleeper.id, bench.archive())
        await eventually(lambda: bench.engine(sleeper.id), timeout=PATIENCE, describe=bench.describe)
        ref = ObjectRef(ENGINES, bench.namespace, f"e{sleeper.id}")
        await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 0}}})
        await eventually(refused, timeout=PATIENCE, describe=bench.describe)
    assert await bench.all(REVISIONS) == [], "nothing of Knative was made"
