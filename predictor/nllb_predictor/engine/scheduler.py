"""The threads in front of the engine, and the tickets by which callers use them.

Callers live on the event loop and await their answer; the engine is only ever touched by worker threads, one per
batch that may run at the same time, so the loop never waits for it. What is computed next is `queue`'s decision.
Segments whose caller has left, or whose deadline has passed, are dropped before they cost anything; a batch that runs
is finished, since CTranslate2 cannot stop one, and its result discarded.

Refused here: waiting without a bound or without hope (Overloaded), and any knowledge of text, languages or protocols.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from nllb_predictor.engine.domain import How, Hypothesis, Search, Segment
from nllb_predictor.engine.queue import Item, Limits, Priority, Queue, Run
from nllb_predictor.engine.times import Begun, TimeModel, Work
from nllb_predictor.errors import BadRequest, DeadlineExceeded, OutOfMemory, Overloaded, ShuttingDown
from nllb_predictor.stages import Facts, Listener, Stage, listener

__all__ = ["Admission", "BatchReport", "Engine", "Limits", "Priority", "Scheduler", "Ticket"]

log = logging.getLogger(__name__)

CALLER_SHARE = 0.5
"""Part of the queue that one named caller may fill; those that give no name are many callers."""

HOPE = 0.33
"""Part of its time that a call may likely wait and still be let in: as much again is for the batch that it is computed
in, and the rest for a batch of other lengths that goes before, or an estimate that is wrong."""


class Engine(Protocol):
    """What the scheduler needs of a model."""

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        """What `how` asks, for each segment; blocks."""


@dataclass(frozen=True)
class Admission:
    """What the scheduler is told of a call before it gets its first segment."""

    segments: int
    """How many will be run at first; what follows for the same segments is not counted against the queue."""
    timeout: float
    """Seconds, from admission to the end of the last run."""
    priority: Priority = Priority.INTERACTIVE
    caller: str = ""
    """Opaque; callers share the engine fairly. Empty is a caller of its own, shared by all that name none."""
    deterministic: bool = False
    """Whether each segment must be computed alone, so that its answer cannot depend on its neighbours."""


@dataclass(frozen=True)
class BatchReport:
    """What there is to tell of a batch that the engine has computed."""

    segments: int
    source_tokens: int
    new_tokens: int
    """Tokens of the best hypotheses of a search, prefixes left out; 0 for what searches nothing."""
    seconds: float
    waits: tuple[float, ...]
    """Seconds that each segment waited."""


Observer = Callable[[BatchReport], None]


@dataclass(eq=False)
class _Reply:
    """Where the answers of a run go; it is given as soon as every segment has its own."""

    run: Run
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[tuple[Hypothesis, ...]]]"
    listener: Listener | None = None
    answers: dict[int, tuple[Hypothesis, ...]] = field(default_factory=dict)

    def answer(self, index: int, result: tuple[Hypothesis, ...]) -> None:
        self.answers[index] = result
        if len(self.answers) == len(self.run.segments):
            rows = [self.answers[index] for index in range(len(self.answers))]
            self._settle(lambda: self.done.set_result(rows))

    def fail(self, error: Exception) -> None:
        self._settle(lambda: self.done.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        """On the caller's loop, unless the caller is done with it; the loop may be closed by then."""

        def guarded() -> None:
            if not self.done.done():
                settle()

        try:
            self.loop.call_soon_threadsafe(guarded)
        except RuntimeError:
            log.debug("a caller's event loop ended before its answer")


class Scheduler:
    """The queue and its workers. Made and closed on any thread; tickets belong to an event loop."""

    def __init__(self, engine: Engine, limits: Limits, observer: Observer = lambda report: None) -> None:
        self._engine = engine
        self._limits = limits
        self._observer = observer
        self._times = TimeModel()
        self._queue = Queue(limits, self._times)
        self._replies: dict[int, _Reply] = {}
        self._numbers = itertools.count()
        self._reserved = 0
        self._begun: dict[int, Begun] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._workers = [
            threading.Thread(target=self._work, name=f"engine-{number}", daemon=True)
            for number in range(max(1, limits.workers))
        ]
        for worker in self._workers:
            worker.start()

    @property
    def waiting(self) -> int:
        """Segments in the queue."""
        with self._changed:
            return len(self._queue)

    def refuse_oversized(self, segments: int) -> None:
        """Raises BadRequest for more segments than one call may ever hold."""
        if segments > self._limits.queue:
            raise BadRequest(
                f"One call may hold {self._limits.queue} segments, not {segments}.",
                field="text",
                hint="Send several calls, or raise --max-queue-segments.",
            )

    @contextmanager
    def admit(self, admission: Admission) -> Iterator["Ticket"]:
        """Let a call in, or refuse it at once. What it runs is dropped when the block ends.

        Raises Overloaded, ShuttingDown, and BadRequest for a call that could never fit.
        """
        self.refuse_oversized(admission.segments)
        with self._changed:
            self._refuse_if_closed()
            self._refuse_if_hopeless(admission)
            self._reserved += admission.segments
        ticket = Ticket(self, admission, time.monotonic() + admission.timeout, _Place(admission.segments))
        try:
            yield ticket
        finally:
            with self._changed:
                self._reserved -= ticket.place.leave()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ShuttingDown("This process is shutting down.")

    def _refuse_if_hopeless(self, admission: Admission) -> None:
        waiting, limit = len(self._queue) + self._reserved, self._limits.queue
        own = self._queue.of_caller(admission.caller) if admission.caller else 0
        now = time.monotonic()
        ahead = self._queue.ahead(admission.priority, admission.caller) + self._reserved * self._times.segment
        ahead += sum(batch.left(now) for batch in self._begun.values())
        wait = self._times.drain(ahead) / max(1, self._limits.workers)
        if waiting + admission.segments > limit:
            problem = f"{waiting} segments are waiting, and {limit} may wait."
        elif own and own + admission.segments > CALLER_SHARE * limit:
            problem = f"{own} segments of this caller are waiting, and {CALLER_SHARE * limit:.0f} may wait."
        elif waiting and wait > HOPE * admission.timeout:
            problem = (
                f"The queue is about {wait:.0f} s long, too much for a time of {admission.timeout:.0f} s."
            )
        else:
            return
        seconds = max(1.0, wait - HOPE * admission.timeout, self._times.drain(self._queue.tokens / 2))
        raise Overloaded(problem, hint=f"Try again in {seconds:.0f} s.", retry_after=seconds)

    async def run(
        self, ticket: "Ticket", segments: Sequence[Segment], how: How
    ) -> list[tuple[Hypothesis, ...]]:
        """The work of a ticket; see `Ticket.run`."""
        if not segments:
            return []
        loop = asyncio.get_running_loop()
        admission = ticket.admission
        run = Run(
            next(self._numbers),
            tuple(segments),
            how,
            ticket.deadline,
            admission.priority,
            admission.caller,
            admission.deterministic,
            ticket.place.used,
        )
        reply = _Reply(run, loop, loop.create_future(), listener.get())
        self._put(run, reply, ticket)
        try:
            async with asyncio.timeout(max(0.0, ticket.deadline - time.monotonic())):
                return await reply.done
        except TimeoutError:
            raise DeadlineExceeded(
                f"No translation within {admission.timeout:.1f} s.",
                field="timeout_ms",
                hint="Send fewer segments per call.",
            ) from None
        finally:
            self._forget(run)

    def _put(self, run: Run, reply: _Reply, ticket: "Ticket") -> None:
        with self._changed:
            self._refuse_if_closed()
            self._reserved -= ticket.place.leave()
            self._replies[run.number] = reply
            self._queue.put(run, time.monotonic())
            self._changed.notify()

    def _forget(self, run: Run) -> _Reply | None:
        """Nothing more is computed for a run, nor told; its reply, if it was still awaited."""
        with self._changed:
            self._queue.drop(run)
            return self._replies.pop(run.number, None)

    def close(self) -> None:
        """Take nothing more, fail what still waits, and let the workers end; a running batch is finished."""
        with self._changed:
            self._closed = True
            waiting = [self._replies.pop(run.number, None) for run in self._queue.clear()]
            self._changed.notify_all()
        for reply in waiting:
            if reply is not None:
                reply.fail(ShuttingDown("This process is shutting down."))

    def join(self, timeout: float) -> bool:
        """Wait for the workers after `close`; False if one still computes after `timeout` seconds."""
        end = time.monotonic() + timeout
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        return not any(worker.is_alive() for worker in self._workers)

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                self._compute(batch)
            except Exception as error:
                # A worker that ended would leave everybody waiting.
                log.exception("a batch could not be answered: segments=%d", len(batch))
                self._fail(batch, error)
            with self._changed:
                del self._begun[threading.get_ident()]

    def _next_batch(self) -> list[Item]:
        """What is computed next, as soon as it is worth it; empty when closed."""
        with self._changed:
            while True:
                now = time.monotonic()
                running = sum(each.segments for each in self._begun.values())
                pause = self._queue.pause(now)
                batch = [] if pause else self._queue.take(now, running)
                if batch:
                    self._begun[threading.get_ident()] = self._begin(batch, now)
                    if len(self._queue):
                        self._changed.notify()
                    return batch
                if self._closed:
                    return []
                self._changed.wait(pause or None)

    def _begin(self, batch: list[Item], now: float) -> Begun:
        tokens = _tokens(batch)
        seconds = self._times.batch_cost(_steps(batch), tokens) if self._times.known else 0.0
        return Begun(len(batch), tokens, now, seconds)

    def _compute(self, batch: list[Item]) -> None:
        """Answer every item of the batch; one that is too large for the device is halved, with every setting as it
        was, until the culprit is alone."""
        started = time.monotonic()
        try:
            results = self._engine.run([item.segment for item in batch], batch[0].run.how)
        except OutOfMemory as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            log.warning("no memory for a batch, halving it: segments=%d", len(batch))
            middle = len(batch) // 2
            self._compute(batch[:middle])
            self._compute(batch[middle:])
        except Exception as error:
            log.exception("the engine failed: segments=%d", len(batch))
            self._fail(batch, error)
        else:
            self._answer(batch, results, started)

    def _fail(self, batch: list[Item], error: Exception) -> None:
        """Each call in the batch has failed, whatever else of it waits."""
        for run in {item.run.number: item.run for item in batch}.values():
            reply = self._forget(run)
            if reply is not None:
                reply.fail(error)

    def _answer(self, batch: list[Item], results: list[tuple[Hypothesis, ...]], started: float) -> None:
        now = time.monotonic()
        report = _report(batch, results, started, now)
        with self._changed:
            self._learn(batch, report)
            replies = [self._replies.get(item.run.number) for item in batch]
            self._queue.answered(len({item.run.number for item in batch}), report.seconds, now)
        _tell(batch, replies, report, started)
        for item, reply, result in zip(batch, replies, results, strict=True):
            if reply is not None:
                reply.answer(item.index, result)
        self._observer(report)

    def _learn(self, batch: list[Item], report: BatchReport) -> None:
        self._times.saw(Work(_steps(batch), _tokens(batch)), len(batch), report.seconds)
        if isinstance(batch[0].run.how, Search):
            self._times.wrote(report.source_tokens, report.new_tokens)


def _tokens(batch: Sequence[Item]) -> float:
    return sum(item.work.tokens for item in batch)


def _steps(batch: Sequence[Item]) -> float:
    return max(item.work.steps for item in batch)


def _report(
    batch: list[Item], results: list[tuple[Hypothesis, ...]], started: float, now: float
) -> BatchReport:
    searched = isinstance(batch[0].run.how, Search)
    pairs = zip(batch, results, strict=True)
    new = sum(len(found[0].tokens) - len(item.segment.prefix) for item, found in pairs if found)
    return BatchReport(
        len(batch),
        sum(item.work.source for item in batch),
        new if searched else 0,
        now - started,
        tuple(started - item.since for item in batch),
    )


def _tell(
    batch: Sequence[Item], replies: Sequence[_Reply | None], report: BatchReport, started: float
) -> None:
    """Whoever listens to a call hears of its wait and of the batch; once, however many of its segments are in it."""
    heard = {
        reply.run.number: (item, reply.listener) for item, reply in zip(batch, replies, strict=True) if reply
    }
    for item, tell in heard.values():
        if tell is not None:
            tell(Stage.QUEUE, item.since, started, {})
            facts: Facts = {
                "work": type(item.run.how).__name__,
                "segments": report.segments,
                "source_tokens": report.source_tokens,
                "new_tokens": report.new_tokens,
            }
            tell(Stage.BATCH, started, started + report.seconds, facts)


@dataclass
class _Place:
    """The room in the queue that a ticket holds until its first run takes it."""

    segments: int
    used: bool = False

    def leave(self) -> int:
        """Give the room back, once; how much that is."""
        room, self.segments = self.segments, 0
        self.used = True
        return room


@dataclass(frozen=True)
class Ticket:
    """A call that was let in. It may run several times; all its runs share one deadline."""

    _scheduler: Scheduler
    admission: Admission
    deadline: float
    place: _Place

    async def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        """What `how` asks, for each segment in order.

        Raises DeadlineExceeded, OutOfMemory, ShuttingDown.
        """
        return await self._scheduler.run(self, segments, how)
