"""From a build to the revision that serves, phase by phase."""

from collections.abc import Mapping
from datetime import timedelta

from engine_operator.domain.lag import LagClock
from tests.unit.operator.domain.world import World

ENGINE, BUILD = ("live", "e"), ("live", "66c4")


def told(clock: LagClock, world: World) -> Mapping[str, float]:
    before = world.status
    world.settle()
    return clock.follow(ENGINE, BUILD, (before, world.status), world.now)


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


def served(clock: LagClock, world: World, revision: int) -> Mapping[str, float]:
    """A build is noticed now and goes all the way in half a minute."""
    world.wanted = revision
    told(clock, world)
    world.passes(seconds=30)
    world.converted()
    told(clock, world)
    world.ready()
    return told(clock, world)


def test_an_announced_build_is_told_from_the_moment_at_which_it_finished() -> None:
    clock, world = LagClock(), World()
    clock.finished(BUILD, world.now - timedelta(seconds=4))
    lag = served(clock, world, 3)
    assert (lag["notice"], lag["total"]) == (4.0, 34.0)


def test_an_announcement_that_comes_after_the_sweep_saw_the_build_still_counts() -> None:
    clock, world = LagClock(), World()
    told(clock, world)
    clock.finished(BUILD, world.now - timedelta(seconds=2))
    assert served(clock, world, 3)["notice"] == 2.0


def test_a_serval_whose_clock_is_ahead_gives_no_negative_lag() -> None:
    clock, world = LagClock(), World()
    clock.finished(BUILD, world.now + timedelta(seconds=3))
    assert served(clock, world, 3)["notice"] == 0.0


def test_a_build_that_nobody_announced_does_not_take_over_the_time_of_the_one_before() -> None:
    clock, world = LagClock(), World()
    clock.finished(BUILD, world.now)
    served(clock, world, 3)
    world.passes(hours=5)
    lag = served(clock, world, 4)
    assert "notice" not in lag
    assert lag["total"] == 30.0


def test_a_build_that_is_overtaken_leaves_its_time_to_nobody() -> None:
    clock, world = LagClock(), World()
    clock.finished(BUILD, world.now)
    told(clock, world)
    world.passes(hours=1)
    assert "notice" not in served(clock, world, 4)
