"""Warm windows on a real API server: the pod comes and stays, and nothing makes another revision."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import Json
from tests.integration.operator.bench import ENGINES, INFERENCE_SERVICES, PATIENCE, Bench, writes_of
from tests.support.waiting import consistently, eventually

RBAC = Path(__file__).parents[3] / "manifests" / "base" / "rbac.yaml"
MIN_SCALE = "autoscaling.knative.dev/min-scale"


def window(opens: timedelta, closes: timedelta) -> list[Json]:
    """One window, by its distances from now."""
    now = datetime.now(UTC)
    start, end = now + opens, now + closes
    return [{"start": f"{start:%M} {start:%H} * * *", "end": f"{end:%M} {end:%H} * * *"}]


async def test_d13_a_window_wakes_and_holds_the_serving_revision_and_makes_none(bench: Bench) -> None:
    user = f"operator-of-{bench.namespace}"
    await bench.grant([one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one], user)
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator(kubeconfig=str(bench.plane.kubeconfig_for(user)))
    bench.serval.run_build(engine.id, bench.archive())
    status = await bench.until_serves(engine.id, 1)
    revision = status["serving"]["knativeRevision"]
    bench.simulator.world.idle = 0.5

    async def sleeps() -> None:
        assert await bench.pods_of(revision) == []

    async def a_second_later() -> None:
        """API times have steps of a second, and a pod of the second in which the rollout ended is the rollout's."""
        assert datetime.now(UTC) - datetime.fromisoformat(status["serving"]["since"]) > timedelta(seconds=2)

    async def awake() -> None:
        assert [one for one in await bench.pods_of(revision) if "deletionTimestamp" not in one["metadata"]]

    await eventually(sleeps, timeout=PATIENCE, describe=bench.describe)
    await eventually(a_second_later, timeout=PATIENCE, describe=bench.describe)
    service = ObjectRef(INFERENCE_SERVICES, bench.namespace, f"e{engine.id}")
    before = (await bench.cluster.get(service))["metadata"]["generation"]
    ref = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    open_now = window(timedelta(minutes=-5), timedelta(hours=2))
    await bench.cluster.merge(ref, {"spec": {"warmWindows": open_now}})
    await eventually(awake, timeout=PATIENCE, describe=bench.describe)
    await consistently(awake, for_=3.0, describe=bench.describe)
    assert (await bench.engine(engine.id))["status"]["warmUntil"]

    async def told_once() -> None:
        (wake,) = (await bench.engine(engine.id))["status"]["coldStarts"]["wakes"]
        assert {"node", "ready"} <= set(wake["phases"])

    await eventually(told_once, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError, ValueError))

    await bench.cluster.merge(ref, {"spec": {"warmWindows": window(timedelta(hours=2), timedelta(hours=3))}})
    await eventually(sleeps, timeout=PATIENCE, describe=bench.describe)
    assert "warmUntil" not in (await bench.engine(engine.id))["status"]
    assert bench.simulator.knative.created == [revision], "no window makes a revision"
    assert (await bench.cluster.get(service))["metadata"]["generation"] == before
    held = writes_of(bench.writes(), "revisions")
    assert held == [f"patch {revision} 200"] * 2, "once to hold it, once to let it go"


async def test_d12_a_least_scale_among_annotations_keeps_a_pod_and_is_told(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.annotate_source({MIN_SCALE: "1"})
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    status = await bench.until_serves(engine.id, 1)
    assert status["effective"]["replicas"] == "1..1"
    assert "MinScaleAnnotation" in status["effective"]["warning"]
    service = await bench.find(INFERENCE_SERVICES, f"e{engine.id}")
    assert service is not None
    assert service["spec"]["predictor"]["minReplicas"] == 1
    assert MIN_SCALE not in service["metadata"].get("annotations", {}), "Knative refuses it there"
