"""Figures that follow what the operator does."""

import pytest

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.resources import ENGINES, JOBS, NAMESPACES, PODS, plural_of
from engine_operator.domain.transitions import retried
from engine_operator.metrics import REGISTRY
from tests.support.fake_cluster import FakeCluster
from tests.unit.operator.domain.world import CRASH, World


def writes(verb: str, kind: str) -> float:
    return REGISTRY.get_sample_value("serval_live_api_writes_total", {"verb": verb, "kind": kind}) or 0.0


async def test_writes_are_counted_by_verb_and_kind_and_reads_are_not() -> None:
    client, before = FakeCluster().client(), writes("POST", "jobs")
    await client.create(JOBS, {"metadata": {"name": "j", "namespace": "live"}})
    await client.get(ObjectRef(JOBS, "live", "j"))
    assert writes("POST", "jobs") == before + 1
    assert writes("GET", "jobs") == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (ENGINES.path("live", "e", "status"), "translationengines"),
        (PODS.path("live"), "pods"),
        (PODS.path(None), "pods"),
        (NAMESPACES.path(None, "live"), "namespaces"),
    ],
)
def test_the_kind_of_a_path_is_its_plural(path: str, kind: str) -> None:
    assert plural_of(path) == kind


def test_another_attempt_is_told_once_with_the_reason_of_the_failure_before() -> None:
    world = World()
    world.publish(3)
    world.settle()
    told = []
    for step in ("crashed", "waits", "due", "goes on"):
        before = world.status
        if step == "crashed":
            world.crashed()
        if step == "due":
            world.passes(minutes=1)
        world.settle()
        told.append(retried(before, world.status))
    assert told == [None, None, CRASH.reason, None]
