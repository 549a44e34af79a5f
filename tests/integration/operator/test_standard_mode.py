"""KServe's Standard mode: the real Deployment controller rolls the pods, and the operator follows what they run.

For the operator the cluster is one without Knative: whatever it asks of Knative's groups is answered as an API server
answers that does not know them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from engine_operator.cluster.client import ObjectRef
from engine_operator.errors import UsageError
from tests.integration.operator.bench import ENGINES, INFERENCE_SERVICES, PATIENCE, PODS, REVISIONS, Bench
from tests.support.fault_proxy import Answer, Fault, Kind, Match, before_api_server, kubeconfig_through
from tests.support.kube_simulator.standard import StandardMode
from tests.support.waiting import eventually

UNKNOWN_GROUP = Answer(404, "404 page not found\n", "text/plain; charset=utf-8")


@contextmanager
def without_knative(bench: Bench) -> Iterator[tuple[str, Fault]]:
    """A kubeconfig of an API that lacks Knative's groups, and what was asked of them."""
    with before_api_server(bench.plane, bench.folder) as proxy:
        unknown = proxy.add(Fault(Kind.ANSWER, Match(r"^/apis/[a-z.]*knative\.dev"), answer=UNKNOWN_GROUP))
        yield str(kubeconfig_through(proxy, bench.plane, bench.folder)), unknown


async def test_without_knative_the_operator_does_not_start_but_in_standard_mode(bench: Bench) -> None:
    with without_knative(bench) as (kubeconfig, unknown):
        one = await bench.start_operator(kubeconfig=kubeconfig)
        one.ended = True
        assert await one.process.wait() == UsageError.exit_code
        assert "the cluster has no revisions.serving.knative.dev" in one.log.read_text()
        assert unknown.hits


async def test_an_engine_rolls_as_a_deployment_and_what_the_mode_cannot_do_is_refused(bench: Bench) -> None:
    steady, sleeper = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source(serving={"minReplicas": 1})
    with without_knative(bench) as (kubeconfig, _):
        async with StandardMode(bench.plane.kubeconfig, bench.namespace):
            await bench.start_operator(kubeconfig=kubeconfig, deployment_mode="Standard")
            await rolls(bench, steady.id)
            await refuses(bench, sleeper.id)
    assert await bench.all(REVISIONS) == [], "nothing of Knative was made"


async def rolls(bench: Bench, engine: str) -> None:
    """Two builds are served, one after the other, each by a Deployment's pods."""
    bench.serval.run_build(engine, bench.archive())
    first = (await bench.until_serves(engine, 1))["serving"]
    assert first["url"].startswith(f"http://e{engine}-predictor.")
    service = await bench.find(INFERENCE_SERVICES, f"e{engine}")
    assert service is not None
    assert service["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "hpa"
    ports = service["spec"]["predictor"]["containers"][0]["ports"]
    assert [one["containerPort"] for one in ports] == [8080, 8081]

    bench.serval.run_build(engine, bench.archive())
    second = (await bench.until_serves(engine, 2))["serving"]
    assert second["knativeRevision"] != first["knativeRevision"]

    async def one_pod_of_the_new_model() -> None:
        (pod,) = [one for one in await bench.all(PODS) if "job-name" not in one["metadata"]["labels"]]
        variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert variables["SERVAL_LIVE_MODEL_REVISION"] == "2"

    await eventually(
        one_pod_of_the_new_model, timeout=PATIENCE, describe=bench.describe, retry_on=(ValueError,)
    )


async def refuses(bench: Bench, engine: str) -> None:
    """An engine that wants to sleep is not started, and says why."""
    bench.serval.run_build(engine, bench.archive())
    await eventually(lambda: bench.engine(engine), timeout=PATIENCE, describe=bench.describe)
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine}")
    await bench.cluster.merge(ref, {"spec": {"serving": {"minReplicas": 0}}})

    async def refused() -> None:
        told = await bench.condition(engine, "Progressing")
        assert told.get("reason") == "ModeUnsupported", told
        assert "minReplicas is 0" in told["message"]

    await eventually(refused, timeout=PATIENCE, describe=bench.describe)
