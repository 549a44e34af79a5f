"""The operator works with the shipped Roles: nothing is refused, and what only odd days need is needed then."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import CONFIG_MAPS
from tests.integration.operator.bench import ENGINES, INFERENCE_SERVICES, PATIENCE, Bench
from tests.support.privileges import ON_THE_BENCH, Use, entries_of, use_of
from tests.support.waiting import eventually

RBAC = Path(__file__).parents[3] / "manifests" / "base" / "rbac.yaml"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def start_with_shipped_roles(bench: Bench) -> str:
    """Start the operator as a user who has what the chart grants, and no more; the user's name."""
    user = f"operator-of-{bench.namespace}"
    await bench.grant([one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one], user)
    await bench.start_operator(kubeconfig=str(bench.plane.kubeconfig_for(user)))
    return user


def use(bench: Bench, user: str) -> Use:
    """What the user did, from the audit log."""
    return use_of(user, entries_of(bench.plane.audit_log, user, LONG_AGO))


async def test_g11_a_whole_life_needs_no_more_than_the_shipped_roles(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    user = await start_with_shipped_roles(bench)
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
    bench.serval.delete_engine(engine.id)

    async def gone() -> None:
        assert bench.manifests() == []

    await eventually(gone, timeout=60, describe=bench.describe)
    assert use(bench, user).refused == ()


async def test_g11_permissions_for_odd_days_are_each_used_on_such_a_day(bench: Bench) -> None:
    await store_behind_a_private_authority(bench)
    engine = bench.serval.add_engine()
    user = await start_with_shipped_roles(bench)
    bench.simulator.world.nodes = 0
    bench.serval.run_build(engine.id, bench.archive())
    await until_used(bench, user, "list", "events")  # The pod waits for a node.
    bench.simulator.world.nodes = 100
    await bench.until_serves(engine.id, 1)
    await bench.settle()
    service = ObjectRef(INFERENCE_SERVICES, bench.namespace, f"e{engine.id}")
    await bench.edit(service, "a-person", ["spec", "predictor", "maxReplicas"], 7)
    await until_used(bench, user, "update", "inferenceservices")
    ours = ObjectRef(ENGINES, bench.namespace, f"e{engine.id}")
    now = datetime.now(UTC)
    start, end = now - timedelta(minutes=5), now + timedelta(hours=2)
    window = {"start": f"{start:%M} {start:%H} * * *", "end": f"{end:%M} {end:%H} * * *"}
    await bench.cluster.merge(ours, {"spec": {"warmWindows": [window]}})
    await until_used(bench, user, "patch", "revisions")
    await bench.settle()
    await swap_on_a_full_node(bench, engine.id)
    await until_used(bench, user, "delete", "revisions")
    await bench.until_serves(engine.id, 2)
    await bench.settle()
    await bench.wipe_status(ours)
    await until_used(bench, user, "patch", "events")
    seen = use(bench, user)
    assert seen.refused == ()
    wanted = {replace(one, namespace=bench.namespace) for one in ON_THE_BENCH}
    assert wanted <= {replace(one, name="") for one in seen.used}


async def swap_on_a_full_node(bench: Bench, engine_id: str) -> None:
    """A second build, whose pod has room only where the first one's is, and Knative in no hurry to remove that."""
    bench.simulator.world.nodes, bench.simulator.world.linger = 1, float("inf")
    ours = ObjectRef(ENGINES, bench.namespace, f"e{engine_id}")
    await bench.cluster.merge(ours, {"spec": {"rollout": {"strategy": "Recreate"}}})
    bench.serval.run_build(engine_id, bench.archive("second"))

    async def has_the_traffic() -> None:
        assert "takes over" in (await bench.condition(engine_id, "Available"))["message"]

    await eventually(has_the_traffic, timeout=PATIENCE, describe=bench.describe, interval=0.2)
    bench.simulator.knative.call(bench.simulator.knative.created[-1])


async def store_behind_a_private_authority(bench: Bench) -> None:
    """A source whose store has a ConfigMap with certificates. Any will do: the bench's store speaks plain HTTP."""
    certificate = (bench.plane.files.pki / "ca.crt").read_text(encoding="utf-8")
    body = {"metadata": {"name": "authority", "namespace": bench.namespace}, "data": {"ca.crt": certificate}}
    await bench.cluster.create(CONFIG_MAPS, body)
    await bench.make_source(artifactStore={**bench.artifact_store(), "caConfigMapRef": {"name": "authority"}})


async def until_used(bench: Bench, user: str, verb: str, resource: str) -> None:
    """Wait for a request of this kind that was let through."""

    def used() -> bool:
        return any((one.verb, one.resource) == (verb, resource) for one in use(bench, user).used)

    await eventually(used, timeout=PATIENCE, describe=bench.describe, interval=0.5)
