"""The queue in front of the engine, with a small engine that can be held and that notes its batches."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from nllb_predictor.engine.domain import How, Hypothesis, Search, Segment
from nllb_predictor.engine.queue import Item
from nllb_predictor.engine.scheduler import Admission, BatchReport, Limits, Scheduler
from nllb_predictor.engine.times import Work
from nllb_predictor.errors import BadRequest, DeadlineExceeded, OutOfMemory, Overloaded, ShuttingDown
from tests.support.cases import case
from tests.support.waiting import eventually

GREEDY, BEAM = Search(1, 99), Search(4, 99)


@dataclass
class SmallEngine:
    """Answers each segment with its own tokens; holds every batch while `held`; has memory for `room` segments."""

    room: int = 1000
    batches: list[tuple[int, How]] = field(default_factory=list)
    running: int = 0
    sized: bool = False
    gate: threading.Event = field(default_factory=threading.Event)

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        self.running += 1
        assert self.gate.wait(30)
        self.running -= 1
        if len(segments) > self.room or any("huge" in segment.tokens for segment in segments):
            raise OutOfMemory("no room")
        self.batches.append((len(segments), how))
        if any("broken" in segment.tokens for segment in segments):
            raise RuntimeError("broken")
        assert isinstance(how, Search)
        score = -float(how.beams) - (len(segments) / 1000 if self.sized else 0)
        return [(Hypothesis((segment.target, *segment.tokens), score, True),) for segment in segments]


@pytest.fixture
def engine() -> SmallEngine:
    engine = SmallEngine()
    engine.gate.set()
    return engine


@pytest.fixture
async def scheduler(engine: SmallEngine) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(engine, Limits(queue=8, batch=4))
    yield scheduler
    engine.gate.set()
    scheduler.close()
    assert await asyncio.to_thread(scheduler.join, 10)


def segments(*words: str, target: str = "spa_Latn") -> list[Segment]:
    return [Segment((word,), target) for word in words]


async def submit(
    scheduler: Scheduler, wanted: Sequence[Segment], search: Search, timeout: float
) -> list[Hypothesis]:
    with scheduler.admit(Admission(len(wanted), timeout)) as ticket:
        return [found[0] for found in await ticket.run(wanted, search)]


async def hold(engine: SmallEngine, scheduler: Scheduler) -> "asyncio.Task[list[Hypothesis]]":
    """Occupy the only worker with one segment until the gate opens."""
    engine.gate.clear()
    task = asyncio.create_task(submit(scheduler, segments("first"), GREEDY, 30))
    await eventually(lambda: engine.running == 1)
    return task


async def test_answers_come_in_the_order_of_the_segments(scheduler: Scheduler) -> None:
    words = ["a", "b", "c", "d", "e", "f"]
    answers = await submit(scheduler, segments(*words), GREEDY, 30)
    assert [answer.tokens[1] for answer in answers] == words


async def test_waiting_calls_share_a_batch(engine: SmallEngine, scheduler: Scheduler) -> None:
    first = await hold(engine, scheduler)
    others = [asyncio.create_task(submit(scheduler, segments(word), GREEDY, 30)) for word in "abc"]
    await eventually(lambda: scheduler.waiting == 3)
    engine.gate.set()
    answers = await asyncio.gather(first, *others)
    assert [answer[0].tokens[1] for answer in answers] == ["first", "a", "b", "c"]
    assert [size for size, _ in engine.batches] == [1, 3]


@case("p58", breaks="nllb_predictor.engine.queue:compatible", naive=lambda lead, other: True)
async def test_p58_only_equal_searches_share_a_batch_and_each_caller_gets_its_own(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)
    wanted = [
        ("a", GREEDY, "spa_Latn"),
        ("b", BEAM, "fra_Latn"),
        ("c", GREEDY, "fra_Latn"),
        ("d", BEAM, "spa_Latn"),
    ]
    tasks = [
        asyncio.create_task(submit(scheduler, segments(word, target=target), search, 30))
        for word, search, target in wanted
    ]
    await eventually(lambda: scheduler.waiting == 4)
    engine.gate.set()
    await first
    for (word, search, target), task in zip(wanted, tasks, strict=True):
        [answer] = await task
        assert answer == Hypothesis((target, word), -float(search.beams), True)
    assert engine.batches == [(1, GREEDY), (2, GREEDY), (2, BEAM)]


async def test_a_full_queue_refuses_at_once(engine: SmallEngine, scheduler: Scheduler) -> None:
    first = await hold(engine, scheduler)
    waiting = asyncio.create_task(submit(scheduler, segments(*"abcdefg"), GREEDY, 30))
    await eventually(lambda: scheduler.waiting == 7)
    with pytest.raises(Overloaded):
        await submit(scheduler, segments("x", "y"), GREEDY, 30)
    engine.gate.set()
    assert len(await waiting) == 7
    await first


async def test_a_call_that_could_never_wait_is_a_bad_request(scheduler: Scheduler) -> None:
    with pytest.raises(BadRequest, match="8 segments, not 9"):
        await submit(scheduler, segments(*"abcdefghi"), GREEDY, 30)


async def test_a_deadline_that_passes_in_the_queue_costs_the_engine_nothing(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)
    with pytest.raises(DeadlineExceeded):
        await submit(scheduler, segments("late"), GREEDY, 0.01)
    engine.gate.set()
    await first
    assert (await submit(scheduler, segments("next"), GREEDY, 30))[0].tokens[1] == "next"
    assert engine.batches == [(1, GREEDY), (1, GREEDY)]


async def test_the_work_of_a_caller_that_leaves_is_dropped(engine: SmallEngine, scheduler: Scheduler) -> None:
    first = await hold(engine, scheduler)
    leaving = asyncio.create_task(submit(scheduler, segments("gone"), GREEDY, 30))
    await eventually(lambda: scheduler.waiting == 1)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    engine.gate.set()
    await first
    await eventually(lambda: scheduler.waiting == 0)
    assert engine.batches == [(1, GREEDY)]


def _all_or_nothing(self: Scheduler, batch: list[Item]) -> None:
    try:
        results = self._engine.run([item.segment for item in batch], batch[0].run.how)
    except OutOfMemory as error:
        self._fail(batch, error)
    else:
        self._answer(batch, results, 0.0)


@case("p45", breaks="nllb_predictor.engine.scheduler:Scheduler._compute", naive=_all_or_nothing)
async def test_p45_a_batch_without_memory_is_halved_until_the_culprit_is_alone(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)
    small = asyncio.create_task(submit(scheduler, segments("a", "b"), GREEDY, 30))
    culprit = asyncio.create_task(submit(scheduler, segments("huge"), GREEDY, 30))
    await eventually(lambda: scheduler.waiting == 3)
    engine.gate.set()
    await first
    assert [answer.tokens[1] for answer in await small] == ["a", "b"]
    with pytest.raises(OutOfMemory):
        await culprit
    assert (await submit(scheduler, segments("after"), GREEDY, 30))[0].tokens[1] == "after"


def _once_more_in_a_plain_way(self: Scheduler, batch: list[Item]) -> None:
    segments, how = [item.segment for item in batch], batch[0].run.how
    try:
        results = self._engine.run(segments, how)
    except OutOfMemory:
        results = [self._engine.run([segment], Search(1, 256))[0] for segment in segments]
    self._answer(batch, results, 0.0)


@case("p14", breaks="nllb_predictor.engine.scheduler:Scheduler._compute", naive=_once_more_in_a_plain_way)
async def test_p14_after_a_memory_error_every_setting_and_token_is_as_before(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    how = Search(4, 77, patience=2.0, hypotheses=2, attention=True, no_repeat_ngram=3)
    curly = segments("“Come,”", "he", "said,", "‘now.’")
    engine.room = 1
    shy = await submit(scheduler, curly, how, 30)
    assert set(engine.batches) == {(1, how)}
    engine.room = 1000
    assert await submit(scheduler, curly, how, 30) == shy
    assert engine.batches[-1] == (4, how)


@case("p24", breaks="nllb_predictor.engine.queue:fills_up", naive=lambda lead: True)
async def test_p24_a_deterministic_text_is_computed_alone_inside_a_burst_too(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    """The small engine's scores depend on the size of the batch, as those of a real one may in the last digits."""
    engine.sized = True

    async def ask(word: str, deterministic: bool) -> Hypothesis:
        with scheduler.admit(Admission(1, 30, deterministic=deterministic)) as ticket:
            return (await ticket.run(segments(word), GREEDY))[0][0]

    alone = await ask("€27.40", True)
    first = await hold(engine, scheduler)
    burst = [asyncio.create_task(ask(word, False)) for word in "abc"]
    within = asyncio.create_task(ask("€27.40", True))
    burst += [asyncio.create_task(ask(word, False)) for word in "def"]
    await eventually(lambda: scheduler.waiting == 7)
    engine.gate.set()
    assert await within == alone
    others = await asyncio.gather(*burst)
    assert any(found.score != alone.score for found in others)
    await first


async def test_later_runs_of_a_call_are_not_refused_by_a_full_queue(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    with scheduler.admit(Admission(1, 30)) as ticket:
        await ticket.run(segments("a"), GREEDY)
        first = await hold(engine, scheduler)
        waiting = asyncio.create_task(submit(scheduler, segments(*"abcdefgh"), GREEDY, 30))
        await eventually(lambda: scheduler.waiting == 8)
        later = asyncio.create_task(ticket.run(segments("later"), BEAM))
        await eventually(lambda: scheduler.waiting == 9)
        engine.gate.set()
        assert (await later)[0][0].tokens[1] == "later"
    await asyncio.gather(first, waiting)
    assert engine.batches[2] == (1, BEAM), "before the new call, though it came after it"


async def test_room_that_a_call_was_promised_is_kept_until_it_runs_or_leaves(scheduler: Scheduler) -> None:
    with scheduler.admit(Admission(6, 30)):
        with pytest.raises(Overloaded):
            await submit(scheduler, segments("x", "y", "z"), GREEDY, 30)
        assert await submit(scheduler, segments("x", "y"), GREEDY, 30)
    assert len(await submit(scheduler, segments(*"abcdefgh"), GREEDY, 30)) == 8


async def test_one_named_caller_cannot_fill_the_queue_for_the_others(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)

    async def ask(caller: str, *words: str) -> None:
        with scheduler.admit(Admission(len(words), 30, caller=caller)) as ticket:
            await ticket.run(segments(*words), GREEDY)

    flood = asyncio.create_task(ask("flood", "a", "b", "c"))
    await eventually(lambda: scheduler.waiting == 3)
    with pytest.raises(Overloaded, match="this caller"):
        await ask("flood", "d", "e")
    other = asyncio.create_task(ask("other", "x", "y"))
    await eventually(lambda: scheduler.waiting == 5)
    engine.gate.set()
    await asyncio.gather(first, flood, other)


async def test_a_queue_that_is_longer_than_the_callers_time_refuses_and_says_when(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    times = scheduler._times
    for _ in range(20):
        times.saw(Work(10, 100), 4, 40.0)
    first = await hold(engine, scheduler)
    waiting = asyncio.create_task(submit(scheduler, segments(*"abcde"), GREEDY, 300))
    await eventually(lambda: scheduler.waiting == 5)
    with pytest.raises(Overloaded, match="s long") as refused:
        await submit(scheduler, segments("x"), GREEDY, 5)
    assert refused.value.retry_after is not None
    assert refused.value.retry_after > 1
    engine.gate.set()
    await asyncio.gather(first, waiting)


async def test_an_engine_error_reaches_its_callers_and_the_worker_lives(scheduler: Scheduler) -> None:
    with pytest.raises(RuntimeError, match="broken"):
        await submit(scheduler, segments("broken"), GREEDY, 30)
    assert (await submit(scheduler, segments("after"), GREEDY, 30))[0].tokens[1] == "after"


async def test_a_worker_outlives_whoever_counts_its_batches(engine: SmallEngine) -> None:
    def broken(report: BatchReport) -> None:
        raise ZeroDivisionError

    scheduler = Scheduler(engine, Limits(queue=8, batch=4), broken)
    try:
        for word in "ab":
            assert (await submit(scheduler, segments(word), GREEDY, 30))[0].tokens[1] == word
    finally:
        scheduler.close()
        assert await asyncio.to_thread(scheduler.join, 10)


async def test_reports_tell_sizes_tokens_and_waits(engine: SmallEngine) -> None:
    reports: list[BatchReport] = []
    scheduler = Scheduler(engine, Limits(queue=8, batch=4), reports.append)
    try:
        await submit(scheduler, [Segment(("a", "b"), "spa_Latn"), Segment(("c",), "spa_Latn")], GREEDY, 30)
        await eventually(lambda: bool(reports))
    finally:
        scheduler.close()
        assert await asyncio.to_thread(scheduler.join, 10)
    [report] = reports
    assert (report.segments, report.source_tokens, report.new_tokens) == (2, 3, 5)
    assert len(report.waits) == 2
    assert min(report.waits) >= 0
    assert report.seconds >= 0


async def test_closing_fails_what_waits_and_finishes_what_runs(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)
    waiting = asyncio.create_task(submit(scheduler, segments("a"), GREEDY, 30))
    await eventually(lambda: scheduler.waiting == 1)
    scheduler.close()
    with pytest.raises(ShuttingDown):
        await waiting
    engine.gate.set()
    assert (await first)[0].tokens[1] == "first"
    with pytest.raises(ShuttingDown):
        await submit(scheduler, segments("b"), GREEDY, 30)


async def test_the_event_loop_is_free_while_the_engine_computes(
    engine: SmallEngine, scheduler: Scheduler
) -> None:
    first = await hold(engine, scheduler)
    await asyncio.wait_for(asyncio.sleep(0), 1)
    assert not first.done()
    engine.gate.set()
    await first


async def test_no_segments_are_answered_without_the_engine(engine: SmallEngine, scheduler: Scheduler) -> None:
    assert await submit(scheduler, [], GREEDY, 30) == []
    assert engine.batches == []
