"""From a build to the revision that serves, phase by phase."""

from collections.abc import Mapping

from engine_operator.domain.lag import LagClock
from tests.unit.operator.domain.world import World

ENGINE = ("live", "e")


def told(clock: LagClock, world: World) -> Mapping[str, float]:
    before = world.status
    world.settle()
    return clock.follow(ENGINE, before, world.status, world.now)


def test_each_phase_is_told_once_when_the_revision_serves() -> None:
    clock, world = LagClock(), World()
    assert told(clock, world) == {}
    world.passes(seconds=60)
    world.converted()
    world.busy_rollouts = 3
    assert told(clock, world) == {}
    world.passes(seconds=20)
    world.busy_rollouts = 0
    assert told(clock, world) == {}
    world.passes(seconds=5)
    world.ready()
    assert told(clock, world) == {"convert": 60.0, "wait": 20.0, "rollout": 5.0, "total": 85.0}
    assert told(clock, world) == {}


def test_a_journey_that_began_before_this_process_is_not_told() -> None:
    world = World()
    world.settle()
    world.converted()
    world.settle()
    clock = LagClock()
    world.ready()
    assert told(clock, world) == {}


def test_a_newer_build_begins_its_own_journey() -> None:
    clock, world = LagClock(), World()
    told(clock, world)
    world.passes(hours=1)
    world.wanted = 4
    told(clock, world)
    world.passes(seconds=30)
    world.converted()
    told(clock, world)
    world.ready()
    assert told(clock, world)["total"] == 30.0
