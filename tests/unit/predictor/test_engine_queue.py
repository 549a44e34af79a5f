"""Which segments are computed next: the policy alone, on a clock that the tests turn."""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.engine import queue as policy
from nllb_predictor.engine.domain import How, NextTokens, Scoring, Search, Segment
from nllb_predictor.engine.queue import Item, Limits, Priority, Queue, Run
from nllb_predictor.engine.times import Begun, TimeModel, Work

GREEDY, BEAM = Search(1, 200), Search(4, 200)
HOWS: tuple[How, ...] = (GREEDY, BEAM, Scoring(), NextTokens(5))
INTERACTIVE, BULK = Priority.INTERACTIVE, Priority.BULK


def segment(tokens: int) -> Segment:
    return Segment(("x",) * tokens, "spa_Latn")


@dataclass
class World:
    """A queue, an engine that needs a second per thousand tokens and a hundredth per step, and the time."""

    limits: Limits = field(default_factory=lambda: Limits(queue=10_000, batch=8, tokens=600))
    now: float = 0.0
    batches: list[list[Item]] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.times = TimeModel()
        self.queue = Queue(self.limits, self.times)

    def put(
        self,
        *lengths: int,
        how: How = GREEDY,
        priority: Priority = INTERACTIVE,
        caller: str = "",
        alone: bool = False,
        later: bool = False,
        timeout: float = 1e9,
    ) -> Run:
        segments = tuple(segment(length) for length in lengths)
        run = Run(next(self.numbers), segments, how, self.now + timeout, priority, caller, alone, later)
        self.queue.put(run, self.now)
        return run

    def step(self) -> list[Item]:
        """Compute one batch."""
        self.now += self.queue.pause(self.now)
        batch = self.queue.take(self.now)
        if batch:
            work = Work(max(i.work.steps for i in batch), sum(i.work.tokens for i in batch))
            seconds = work.steps / 100 + work.tokens / 1000
            self.now += seconds
            self.times.saw(work, len(batch), seconds)
            self.queue.answered(len({i.run.number for i in batch}), seconds, self.now)
            self.batches.append(batch)
        return batch

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        while len(self.queue) and not until():
            assert self.step() or not len(self.queue)


RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "lengths": st.lists(st.integers(1, 80), min_size=1, max_size=12),
            "how": st.sampled_from(HOWS),
            "priority": st.sampled_from(Priority),
            "caller": st.sampled_from(["", "a", "b"]),
            "alone": st.booleans(),
            "later": st.booleans(),
        }
    ),
    max_size=25,
)


def put_all(world: World, runs: list[dict[str, object]]) -> list[Run]:
    return [world.put(*each.pop("lengths"), **each) for each in (dict(run) for run in runs)]  # type: ignore[misc, arg-type]


@given(RUNS)
@settings(deadline=None)
def test_everything_that_waits_is_computed_once_and_nothing_else(runs: list[dict[str, object]]) -> None:
    world = World()
    put = put_all(world, runs)
    world.run()
    found = Counter((item.run.number, item.index) for batch in world.batches for item in batch)
    assert found == Counter((run.number, index) for run in put for index in range(len(run.segments)))
    assert world.queue.tokens == 0


@given(RUNS)
@settings(deadline=None)
def test_a_batch_is_of_one_kind_and_within_its_budget(runs: list[dict[str, object]]) -> None:
    world = World()
    put_all(world, runs)
    world.run()
    for batch in world.batches:
        assert len({item.run.how for item in batch}) == 1
        assert len({item.run.priority for item in batch}) == 1
        assert len(batch) == 1 or not any(item.run.alone for item in batch)
        assert len(batch) <= world.limits.batch
        assert len(batch) == 1 or sum(item.work.tokens for item in batch) <= world.limits.tokens
        assert len(batch) == 1 or len(batch) * max(item.work.source for item in batch) <= world.limits.tokens


@given(RUNS, st.data())
@settings(deadline=None)
def test_what_is_dropped_or_late_costs_nothing(runs: list[dict[str, object]], data: st.DataObject) -> None:
    world = World()
    put = put_all(world, runs)
    late = [world.put(5, timeout=-1.0) for _ in range(3)]
    gone = [run for run in put if data.draw(st.booleans())]
    for run in gone:
        assert world.queue.drop(run) == len(run.segments)
    world.run()
    computed = {item.run.number for batch in world.batches for item in batch}
    assert computed == {run.number for run in put} - {run.number for run in gone}
    assert not computed & {run.number for run in late}


def test_a_long_line_does_not_make_thirty_short_ones_as_long() -> None:
    world = World(Limits(queue=100, batch=64, tokens=8192))
    world.put(900, *[15] * 31)
    world.run()
    sizes = [(len(batch), max(item.work.source for item in batch)) for batch in world.batches]
    assert all(count * longest <= 8192 for count, longest in sizes)
    assert sum(count for count, _ in sizes) == 32
    assert len(sizes) == 2


def test_a_budget_counts_beams_and_a_segment_above_it_is_computed_alone() -> None:
    world = World()
    world.put(*[20] * 8, how=BEAM)
    world.put(500, how=BEAM)
    world.run()
    assert [len(batch) for batch in world.batches] == [4, 4, 1]


def test_interactive_calls_go_first_and_bulk_is_not_starved() -> None:
    world = World()
    world.put(*[20] * 400, priority=BULK, caller="job")
    world.step()
    for _ in range(200):
        world.put(*[20] * 8, caller="person")
        world.step()
    batches = world.batches[1:]
    tokens = Counter[Priority]()
    for batch in batches:
        tokens[batch[0].run.priority] += round(sum(item.work.tokens for item in batch))
    assert batches[0][0].run.priority is INTERACTIVE
    assert 0.05 < tokens[BULK] / (tokens[BULK] + tokens[INTERACTIVE]) < 0.15


def test_bulk_batches_are_small_while_somebody_works_interactively() -> None:
    world = World()
    world.put(*[20] * 64, priority=BULK)
    assert len(world.step()) == 8
    world.put(20)
    world.step()
    assert [item.run.priority for item in world.step()] == [BULK] * 3
    world.now += policy.QUIET_SECONDS
    assert len(world.step()) == 8


@pytest.mark.parametrize("priority", list(Priority))
def test_a_caller_that_sends_much_does_not_delay_one_that_sends_little(priority: Priority) -> None:
    world = World()
    for _ in range(50):
        world.put(*[20] * 8, priority=priority, caller="flood")
    world.step()
    world.put(20, priority=priority, caller="one")
    assert any(item.run.caller == "one" for item in world.step())


def test_callers_that_always_wait_get_equal_work_whatever_they_send() -> None:
    world = World()
    world.put(*[70] * 300, caller="long")
    world.put(*[10] * 2000, caller="short")
    tokens = Counter[str]()
    for _ in range(80):
        for item in world.step():
            tokens[item.run.caller] += round(item.work.tokens)
    assert 0.8 < tokens["long"] / tokens["short"] < 1.25


def test_nobody_saves_up_turns_while_away() -> None:
    world = World()
    world.put(*[20] * 800, caller="always")
    for _ in range(20):
        world.step()
    world.put(*[20] * 800, caller="returned")
    tokens = Counter[str]()
    for _ in range(20):
        for item in world.step():
            tokens[item.run.caller] += 1
    assert tokens["always"] > 0.35 * tokens.total()


def test_callers_that_left_are_forgotten() -> None:
    world = World()
    world.put(*[20] * 2000, caller="always")
    for number in range(200):
        world.put(5, caller=f"caller-{number}")
        world.step()
    assert len(world.queue._callers) < 50
    world.run()
    assert len(world.queue._callers) == 0


def test_what_is_half_done_is_finished_before_new_calls_of_its_priority() -> None:
    world = World()
    world.put(*[20] * 40, caller="new")
    bulk = world.put(20, how=Scoring(), later=True, priority=BULK)
    later = world.put(20, how=Scoring(), later=True, caller="other")
    assert [item.run for item in world.step()] == [later]
    assert [item.run for item in world.step()] == [bulk], "its share"


def test_lengths_in_a_batch_are_alike_and_the_oldest_leads() -> None:
    world = World(Limits(queue=1000, batch=8, tokens=100_000))
    world.put(*itertools.chain.from_iterable(zip([10] * 16, [60] * 16, strict=True)))
    world.run()
    spreads = [
        max(len(i.segment.tokens) for i in batch) - min(len(i.segment.tokens) for i in batch)
        for batch in world.batches
    ]
    assert [len(batch) for batch in world.batches] == [8, 8, 8, 8]
    assert spreads == [0, 0, 0, 0]
    assert world.batches[0][0].run.number == 0
    assert len(world.batches[0][0].segment.tokens) == 10


@given(st.lists(st.integers(1, 80), min_size=1, max_size=60))
@settings(deadline=None)
def test_no_length_waits_for_ever_while_others_keep_coming(lengths: list[int]) -> None:
    world = World()
    odd = world.put(79)
    waited = 0
    while any(item.run is odd for lane in world.queue._lanes.values() for item in lane):
        world.put(*lengths)
        world.step()
        waited += 1
    assert waited <= 2


def test_a_batch_ends_before_the_first_deadline_in_it() -> None:
    world = World(Limits(queue=1000, batch=64, tokens=100_000))
    for _ in range(30):
        world.put(*[20] * 4)
        world.put(20)
        world.step()
    world.put(*[20] * 64, timeout=2.0)
    began = world.now
    batch = world.step()
    assert 8 < len(batch) < 64
    assert world.now - began <= 2.0
    world.put(*[20] * 64, timeout=0.1)
    assert len(world.step()) >= 1, "what nobody can save is tried nevertheless"


def test_what_cannot_be_in_time_any_more_does_not_make_a_batch_small() -> None:
    world = World(Limits(queue=1000, batch=64, tokens=100_000))
    for _ in range(30):
        world.put(*[20] * 4)
        world.step()
    world.put(20, timeout=0.1)
    world.put(*[20] * 40, timeout=10.0)
    assert len(world.step()) == 41


def test_callers_that_ask_again_at_once_are_waited_for_a_moment() -> None:
    world = World(Limits(queue=1000, batch=64, tokens=100_000))
    for _ in range(8):
        world.put(20)
    world.step()
    took = world.now
    assert world.queue.pause(world.now) == 0.0, "nothing waits, so there is nothing to hold back"
    world.put(20)
    assert 0 < world.queue.pause(world.now) <= policy.PATIENCE * took
    for _ in range(7):
        world.put(20)
    assert world.queue.pause(world.now) == 0.0


def test_callers_that_come_one_after_the_other_are_waited_for_while_they_keep_coming() -> None:
    world = World(Limits(queue=1000, batch=64, tokens=100_000))
    for _ in range(30):
        world.put(20)
    world.step()
    ended = world.now
    came = 0
    while (pause := world.queue.pause(world.now)) or not came:
        world.now += 0.9 * pause
        world.put(20)
        came += 1
    took = ended - world.batches[0][0].since
    assert came < 30
    assert policy.PATIENCE * took < world.now - ended <= policy.LONGEST_PATIENCE * took
    world.put(20)
    assert world.queue.pause(world.now) == 0.0, "what has waited so long is not held back by one more"


def test_nobody_is_waited_for_where_the_next_batches_are_full_already() -> None:
    world = World(Limits(queue=1000, batch=8, workers=2, tokens=100_000))
    world.put(*[20] * 15)
    world.queue.answered(8, 10.0, world.now)
    assert world.queue.pause(world.now) > 0.0
    world.put(20)
    assert world.queue.pause(world.now) == 0.0


def test_many_callers_leave_something_to_choose_from_and_one_call_is_divided_evenly() -> None:
    limits = Limits(queue=1000, batch=64, workers=2, tokens=100_000)
    many, one = World(limits), World(limits)
    for _ in range(64):
        many.put(20)
    one.put(*[20] * 64)
    assert [len(world.queue.take(0.0)) for world in (many, one)] == [29, 32]
    assert [len(world.queue.take(0.0, running)) for world, running in ((many, 29), (one, 32))] == [29, 32]


def test_a_single_caller_never_waits_for_others() -> None:
    world = World()
    for _ in range(3):
        world.put(20)
        assert world.queue.pause(world.now) == 0.0
        assert len(world.step()) == 1


def test_only_what_goes_before_a_call_counts_as_ahead_of_it() -> None:
    world = World()
    world.put(*[20] * 100, priority=BULK, caller="job")
    assert world.queue.ahead(INTERACTIVE, "person") == 0
    assert world.queue.ahead(BULK, "job") == world.queue.tokens
    world.put(*[20] * 100, caller="flood")
    assert world.queue.ahead(INTERACTIVE, "person") < world.queue.ahead(INTERACTIVE, "flood")
    assert world.queue.ahead(INTERACTIVE, "") == world.queue.ahead(INTERACTIVE, "flood")


def test_of_a_batch_that_runs_only_what_is_left_counts() -> None:
    batch = Begun(segments=3, tokens=100.0, started=10.0, seconds=4.0)
    assert [batch.left(now) for now in (10.0, 11.0, 14.0, 20.0)] == [100.0, 75.0, 0.0, 0.0]
    assert Begun(3, 100.0, 10.0, 0.0).left(1000.0) == 100.0, "nothing is known, so nothing is promised"


def test_the_time_model_learns_steps_and_tokens_and_follows_a_change() -> None:
    times = TimeModel()
    assert not times.known
    assert times.drain(1000) == 0
    for scale in (1.0, 3.0):
        for number in range(150):
            work = Work(10 + number % 7 * 10, 100 + number % 5 * 300)
            times.saw(work, 4, scale * (0.01 * work.steps + 0.001 * work.tokens))
        assert times.batch_cost(50, 1000) == pytest.approx(scale * 1.5, rel=0.15)
    assert times.known


@given(st.lists(st.tuples(st.floats(1, 500), st.floats(1, 50_000), st.floats(0.001, 100)), min_size=1))
@settings(deadline=None)
def test_the_time_model_never_promises_the_impossible(seen: list[tuple[float, float, float]]) -> None:
    times = TimeModel()
    for steps, tokens, seconds in seen:
        times.saw(Work(steps, tokens), 1, seconds)
    assert times.batch_cost(10, 100) > 0
    assert times.drain(100) > 0
