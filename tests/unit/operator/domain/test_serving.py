"""Which revision counts as serving: only one that clients can follow."""

from dataclasses import replace

from engine_operator.domain import reasons
from engine_operator.domain.engine import RolloutSpec, RolloutStart
from engine_operator.domain.observed import Phase
from engine_operator.domain.rollout import place_of
from tests.unit.operator.domain.world import World, engine


def test_a_revision_is_not_promoted_until_its_url_is_known() -> None:
    world = World()
    world.settle()
    world.converted()
    world.settle()
    world.ready()
    assert world.service is not None
    world.service = replace(world.service, url="")
    world.settle()
    assert (world.serving(), world.phase()) == (None, "RollingOut")
    assert world.said("Available") == ("False", reasons.NEVER_SERVED)
    world.service = replace(world.service, url="http://e.live.svc.cluster.local")
    world.settle()
    assert (world.serving(), world.phase()) == (3, "Serving")
    assert world.status.serving is not None
    assert world.status.serving.url == "http://e.live.svc.cluster.local"


def test_an_url_that_kserve_withdraws_for_a_moment_is_kept() -> None:
    world = World()
    world.serves()
    assert world.service is not None
    world.service = replace(world.service, url="")
    assert world.settle() == []
    assert world.status.serving is not None
    assert world.status.serving.url


def test_a_rollout_that_waits_for_a_first_caller_takes_no_place() -> None:
    world = World(spec=engine(rollout=RolloutSpec(start=RolloutStart.ON_FIRST_CALL)))
    world.serves(3)
    assert place_of(world.status, world.service) is Phase.SERVING
    world.wanted = 4
    world.settle()
    assert place_of(world.status, world.service) is Phase.CONVERTING
    world.converted()
    world.settle()
    assert world.phase() == "RollingOut"
    assert place_of(world.status, world.service) is Phase.SERVING, "no pod starts until somebody calls"
