"""The operator works with the Role that is shipped, and nothing is refused to it: no verb is missing."""

import json
from pathlib import Path

import yaml

from tests.integration.operator.bench import Bench
from tests.support.waiting import eventually

RBAC = Path(__file__).parents[3] / "manifests" / "base" / "rbac.yaml"


async def test_g11_a_whole_life_needs_no_more_than_the_shipped_roles(bench: Bench) -> None:
    user = f"operator-of-{bench.namespace}"
    await bench.grant([one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one], user)
    engine = bench.serval.add_engine()
    await bench.make_source()
    await bench.start_operator(kubeconfig=str(bench.plane.kubeconfig_for(user)))
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
    bench.serval.delete_engine(engine.id)

    async def gone() -> None:
        assert bench.manifests() == []

    await eventually(gone, timeout=60, describe=bench.describe)
    refused = []
    for line in bench.plane.audit_log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["user"]["username"] == user and entry["responseStatus"]["code"] in (401, 403):
            refused.append(f"{entry['verb']} {entry['requestURI']}")
    assert refused == []
