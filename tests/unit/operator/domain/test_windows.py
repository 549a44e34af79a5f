"""Warm windows: the clock of a place, days on which it changes, and words that nobody can read."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain.desired import Round
from engine_operator.domain.engine import ServingSpec
from engine_operator.domain.windows import Warmth, WarmWindow, warmth, window_problems
from tests.support.cases import case
from tests.unit.operator.domain.world import World, engine, of_type

NEW_YORK = "America/New_York"
DAY = WarmWindow("0 6 * * *", "0 20 * * *", NEW_YORK)
SPRING = date(2026, 3, 5)
"""Seven days from here hold 8 March, on which New York's clocks go from 2 to 3 (RFC 5545's zone, rule since 2007)."""
AUTUMN = date(2026, 10, 29)
"""And seven from here 1 November, on which they go back."""


def inside(now: datetime) -> bool:
    """The window by the wall clock alone, without cron."""
    return time(6) <= now.astimezone(ZoneInfo(NEW_YORK)).time() < time(20)


@pytest.mark.parametrize("first", [SPRING, AUTUMN, date(2026, 7, 1)])
def test_d13_seven_days_follow_the_wall_clock_over_a_change_of_time(first: date) -> None:
    begin = datetime.combine(first, time(), UTC)
    for minute in range(0, 7 * 24 * 60, 5):
        now = begin + timedelta(minutes=minute)
        found = warmth(now, [DAY])
        assert (found.replicas > 0) == inside(now), now
        assert (found.until is not None) == inside(now)
        assert found.changes is not None
        assert found.changes > now
        # Nothing changes before the moment that is named, and it does then.
        assert inside(found.changes - timedelta(seconds=1)) == inside(now)
        assert inside(found.changes) != inside(now)


def test_windows_that_overlap_last_as_long_as_the_longest_and_hold_the_most() -> None:
    noon = datetime(2026, 12, 2, 12, tzinfo=UTC)
    found = warmth(
        noon, [WarmWindow("0 6 * * *", "0 13 * * *", replicas=3), WarmWindow("0 9 * * *", "0 20 * * *")]
    )
    assert (found.replicas, found.until) == (3, noon.replace(hour=20))
    assert found.changes == noon.replace(hour=13)


def test_a_window_over_midnight_and_one_of_weekdays() -> None:
    night = [WarmWindow("0 22 * * *", "0 2 * * *")]
    assert warmth(datetime(2026, 12, 2, 23, tzinfo=UTC), night).replicas == 1
    assert warmth(datetime(2026, 12, 3, 1, 59, tzinfo=UTC), night).replicas == 1
    assert warmth(datetime(2026, 12, 3, 2, tzinfo=UTC), night).replicas == 0
    working = [WarmWindow("0 6 * * 1-5", "0 20 * * 1-5")]
    friday, saturday = datetime(2026, 12, 4, 12, tzinfo=UTC), datetime(2026, 12, 5, 12, tzinfo=UTC)
    assert (warmth(friday, working).replicas, warmth(saturday, working).replicas) == (1, 0)
    assert warmth(saturday, working).changes == datetime(2026, 12, 7, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "word"),
    [
        (WarmWindow("61 6 * * *", "0 20 * * *"), "Bad minute"),
        (WarmWindow("0 6 * * *", "0 20 * * *", "Mars/Base"), "Mars/Base"),
        (WarmWindow("0 6 * * *", "0 20 * * *", "../etc/passwd"), "../etc/passwd"),
        (WarmWindow("0 0 30 2 *", "0 20 * * *"), "day-of-month"),
    ],
)
def test_a_window_that_cannot_be_read_is_told_and_keeps_no_other_from_working(
    window: WarmWindow, word: str
) -> None:
    noon = datetime(2026, 12, 2, 12, tzinfo=UTC)
    found = warmth(noon, [window, WarmWindow("0 6 * * *", "0 20 * * *")])
    assert found.replicas == 1
    assert len(found.problems) == 1
    assert word in found.problems[0]
    assert window_problems([window]) == found.problems
    assert warmth(noon, [window]) == Warmth(problems=found.problems)


def _by_a_fixed_offset(round_: Round) -> Warmth:
    """Hours of the first day's offset, as a timer that was set once would keep them."""
    shifted = (round_.now - timedelta(hours=5)).time()
    return Warmth(1 if time(6) <= shifted < time(20) else 0)


@case("D13", breaks="engine_operator.domain.warm:wanted_warmth", naive=_by_a_fixed_offset)
def test_d13_seven_days_of_windows_make_no_revision_and_hold_the_pod_while_they_are_open() -> None:
    world = World(spec=engine(warm_windows=(DAY,)), now=datetime.combine(SPRING, time(), UTC))
    world.serves()
    made, applied = list(world.revisions), world.writes
    writes, changes, before = 0, 0, inside(world.now)
    for _ in range(7 * 24 * 4):
        world.passes(minutes=15)
        done = world.settle()
        writes += len(of_type(done, act.WriteStatus))
        changes, before = changes + (inside(world.now) != before), inside(world.now)
        assert (world.revisions[0].held == 1) == inside(world.now), world.now
        assert of_type(done, act.ApplyInferenceService, act.DeleteInferenceService) == []
        assert (world.status.warm_until is not None) == inside(world.now)
    assert [r.name for r in world.revisions] == [r.name for r in made]
    assert world.writes == applied
    assert writes == changes >= 14, "one when a window opens, one when it closes"


def test_the_revision_that_takes_over_is_held_and_the_one_before_let_go() -> None:
    world = World(spec=engine(warm_windows=(WarmWindow("0 0 * * *", "59 23 * * *"),)))
    world.serves(3)
    assert [r.held for r in world.revisions] == [1]
    world.wanted = 4
    world.settle()
    world.converted()
    world.settle()
    assert [r.held for r in world.revisions] == [1, None], "the old one serves until the new one is proven"
    world.ready()
    world.settle()
    assert [r.held for r in world.revisions] == [None, 1]


def test_an_engine_that_has_pods_anyway_needs_no_hold_and_a_paused_one_is_left_alone() -> None:
    open_now = (WarmWindow("0 0 * * *", "59 23 * * *"),)
    always = World(spec=engine(warm_windows=open_now, serving=ServingSpec(min_replicas=1)))
    always.serves()
    assert [r.held for r in always.revisions] == [None]
    world = World()
    world.serves()
    world.spec = replace(world.spec, paused=True, warm_windows=open_now)
    assert of_type(world.settle(), act.HoldRevision) == []
