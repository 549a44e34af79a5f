"""What the operator was granted and what it asked for, over all tests of this tier: the last one, which only reads."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from devcluster.api_server import ControlPlaneFiles
from devcluster.settings import Settings
from tests.support.live.world import NAMESPACE, World
from tests.support.privileges import entries_of, granted, on_the_bench, unused, use_of

RELEASE = "serval-live"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


def test_g11_the_whole_run_uses_every_verb_that_is_granted_and_is_refused_none(
    world: World, request: pytest.FixtureRequest
) -> None:
    log = ControlPlaneFiles(Settings().state).audit_log
    if not log.exists():
        pytest.skip("the audit log of this cluster cannot be read from here")
    account = world.kubectl.get("serviceaccount", RELEASE)
    assert account is not None
    made = datetime.fromisoformat(account["metadata"]["creationTimestamp"])
    use = use_of(OPERATOR, entries_of(log, OPERATOR, since=made))
    assert use.used, "it worked under another name"
    assert use.refused == ()
    ran = {item.path.name for item in request.session.items}
    if ran < {file.name for file in Path(__file__).parent.glob("test_*.py")}:
        return  # A part of the tier needs a part of the verbs.
    ours = ["--all-namespaces", "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "json"]
    roles = json.loads(world.kubectl.run("get", "roles,clusterroles", *ours))["items"]
    assert {role["kind"] for role in roles} == {"Role", "ClusterRole"}
    left = unused(granted(roles), use)
    assert [str(grant) for grant in left if not on_the_bench(grant)] == []
