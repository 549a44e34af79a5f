"""A new release of the operator finds engines that an older one made: they stay as they are.

What was applied is remembered as a hash. If a release reckons it differently, every engine is applied anew, and every
model restarts. The hashes below were reckoned by the first version that ran (commit 69d3581), from the same template.
"""

from dataclasses import replace

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain.actions import ServiceTemplate
from engine_operator.domain.desired import template_hash
from engine_operator.domain.engine import EnvVar, Profile, Protocol, ServingSpec, Toleration
from tests.unit.operator.builders.test_inferenceservice import template
from tests.unit.operator.domain.world import World

GPU = ServingSpec(
    profile=Profile.GPU,
    protocol=Protocol.GRPC,
    max_replicas=3,
    node_selector={"pool": "gpu"},
    tolerations=(Toleration("nvidia.com/gpu", "Exists", None, "NoSchedule"),),
    env=(EnvVar("OMP_NUM_THREADS", "2"),),
)


@pytest.mark.parametrize(
    ("applied", "hash_then"),
    [
        (template(), "a2c6fd9dbeec46b3"),
        (template(GPU), "bd080154523c1180"),
        (template(initial_scale=0, attempt=2), "352d251144bd453e"),
    ],
    ids=["plain", "gpu", "swapped"],
)
def test_what_the_first_version_applied_has_the_hash_that_it_had_then(
    applied: ServiceTemplate, hash_then: str
) -> None:
    assert template_hash(applied) == hash_then


def test_what_a_release_chooses_comes_with_the_next_revision_and_restarts_nothing() -> None:
    world = World()
    world.serves(3)
    before = world.writes
    world.policy = replace(world.policy, workload_service_account="serval-live-workload")
    world.settle()
    assert world.writes == before
    world.serves(4)
    accounts = [
        one.template.service_account for one in world.done if isinstance(one, act.ApplyInferenceService)
    ]
    assert accounts == ["", "serval-live-workload"]
