"""Without its right outside its namespaces (`rbac.readClusterId: false`) the operator works and says what it lacks."""

from pathlib import Path

import yaml

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import PATIENCE, SERVAL_SOURCES, Bench
from tests.support.waiting import eventually

RBAC = Path(__file__).parents[3] / "manifests" / "base" / "rbac.yaml"


async def test_a14_without_the_cluster_id_a_source_must_name_its_installation(bench: Bench) -> None:
    user = f"unnamed-{bench.namespace}"
    shipped = [one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one]
    await bench.grant([one for one in shipped if not one["kind"].startswith("Cluster")], user)
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator(kubeconfig=str(bench.plane.kubeconfig_for(user)))

    async def told() -> None:
        conditions = {one["type"]: one for one in (await bench.source_status())["conditions"]}
        assert conditions["StorageReady"]["reason"] == "ClusterUnnamed"
        assert "set spec.installation" in conditions["StorageReady"]["message"]
        assert conditions["Connected"]["status"] == "True"

    await eventually(told, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
    source = ObjectRef(SERVAL_SOURCES, bench.namespace, "ruth")
    await bench.edit(source, "a-person", ["spec", "installation"], "ruths-engines")
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    assert all(key.startswith("artifacts/ruths-engines/") for key in bench.objects())
    assert len(bench.manifests()) == 1
