"""One bounded queue in front of the engine, and the threads that empty it.

Callers live on the event loop and await their answer; the engine is only ever touched by worker threads, one per
batch that may run at the same time, so the loop never waits for it. A worker takes the oldest segment and whatever
else in the queue can share its batch. Segments whose caller has left, or whose deadline has passed, are dropped
before they cost anything; a batch that runs is finished, since CTranslate2 cannot stop one, and its result discarded.

Refused here: waiting without a bound (Overloaded), and any knowledge of text, languages or protocols.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nllb_predictor.engine.domain import How, Hypothesis, Segment
from nllb_predictor.errors import BadRequest, DeadlineExceeded, OutOfMemory, Overloaded, ShuttingDown

log = logging.getLogger(__name__)


class Engine(Protocol):
    """What the scheduler needs of a model."""

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        """What `how` asks, for each segment; blocks."""


class Priority(StrEnum):
    """Who waits: a person, or a job."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


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
class Limits:
    """Sizes of the queue and of a batch, both in segments, and the number of batches at the same time."""

    queue: int
    batch: int
    workers: int = 1


@dataclass(eq=False)
class _Call:
    """One caller's segments; it is answered as soon as every segment has its hypothesis."""

    segments: Sequence[Segment]
    how: How
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[tuple[Hypothesis, ...]]]"
    gone: bool = False
    answers: dict[int, tuple[Hypothesis, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Item:
    call: _Call
    index: int

    @property
    def segment(self) -> Segment:
        return self.call.segments[self.index]


Observer = Callable[[int, float], None]
"""Hears of every batch: number of segments, seconds."""


class Scheduler:
    """The queue. Made and closed on any thread; `submit` belongs to an event loop."""

    def __init__(
        self, engine: Engine, limits: Limits, observer: Observer = lambda size, seconds: None
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._observer = observer
        self._queue: deque[_Item] = deque()
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
        """Segments in the queue, those of callers that left included until a worker drops them."""
        return len(self._queue)

    @contextmanager
    def admit(self, admission: Admission) -> Iterator["Ticket"]:
        """Let a call in, or refuse it at once. What it runs is dropped when the block ends.

        Raises Overloaded, ShuttingDown, and BadRequest for a call that could never fit.
        """
        if admission.segments > self._limits.queue:
            raise BadRequest(
                f"One call may hold {self._limits.queue} segments, not {admission.segments}.",
                field="text",
                hint="Send several calls, or raise --max-queue-segments.",
            )
        with self._changed:
            if self._closed:
                raise ShuttingDown("This process is shutting down.")
            if len(self._queue) + admission.segments > self._limits.queue:
                raise Overloaded(
                    f"{len(self._queue)} segments are waiting, and {self._limits.queue} may wait.",
                    hint="Try again in a moment.",
                )
        yield Ticket(self, admission, time.monotonic() + admission.timeout)

    async def run(
        self, segments: Sequence[Segment], how: How, deadline: float, timeout: float
    ) -> list[tuple[Hypothesis, ...]]:
        """The work of a ticket; see `Ticket.run`."""
        if not segments:
            return []
        loop = asyncio.get_running_loop()
        call = _Call(segments, how, loop, loop.create_future())
        self._put(call)
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                return await call.done
        except TimeoutError:
            raise DeadlineExceeded(
                f"No translation within {timeout:.1f} s.",
                field="timeout_ms",
                hint="Send fewer segments per call.",
            ) from None
        finally:
            call.gone = True

    def _put(self, call: _Call) -> None:
        with self._changed:
            if self._closed:
                raise ShuttingDown("This process is shutting down.")
            self._queue.extend(_Item(call, index) for index in range(len(call.segments)))
            self._changed.notify()

    def close(self) -> None:
        """Take nothing more, fail what still waits, and let the workers end; a running batch is finished."""
        with self._changed:
            self._closed = True
            waiting = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        for item in waiting:
            _fail(item.call, ShuttingDown("This process is shutting down."))

    def join(self, timeout: float) -> bool:
        """Wait for the workers after `close`; False if one still computes after `timeout` seconds."""
        end = time.monotonic() + timeout
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        return not any(worker.is_alive() for worker in self._workers)

    def _work(self) -> None:
        while batch := self._next_batch():
            started = time.monotonic()
            self._compute(batch)
            self._observer(len(batch), time.monotonic() - started)

    def _next_batch(self) -> list[_Item]:
        """The oldest segment and those that can share its batch; empty when closed."""
        with self._changed:
            while True:
                batch = take_batch(self._queue, self._limits.batch)
                if batch:
                    if self._queue:
                        self._changed.notify()
                    return batch
                if self._closed:
                    return []
                self._changed.wait()

    def _compute(self, batch: list[_Item]) -> None:
        """Answer every item of the batch; one that is too large for the device is halved until the culprit is alone."""
        try:
            results = self._engine.run([item.segment for item in batch], batch[0].call.how)
        except OutOfMemory as error:
            if len(batch) == 1:
                _fail(batch[0].call, error)
                return
            log.warning("no memory for a batch, halving it: segments=%d", len(batch))
            middle = len(batch) // 2
            self._compute(batch[:middle])
            self._compute(batch[middle:])
        except Exception as error:
            log.exception("the engine failed: segments=%d", len(batch))
            for call in {id(item.call): item.call for item in batch}.values():
                _fail(call, error)
        else:
            for item, result in zip(batch, results, strict=True):
                _answer(item, result)


@dataclass(frozen=True)
class Ticket:
    """A call that was let in. It may run several times; all its runs share one deadline."""

    _scheduler: Scheduler
    admission: Admission
    _deadline: float

    async def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        """What `how` asks, for each segment in order.

        Raises DeadlineExceeded, OutOfMemory, ShuttingDown.
        """
        return await self._scheduler.run(segments, how, self._deadline, self.admission.timeout)


def take_batch(queue: deque[_Item], most: int) -> list[_Item]:
    """Remove the oldest living item and, in order, up to `most` - 1 others that are to be done in an equal way; the
    dead are dropped on the way."""
    batch: list[_Item] = []
    kept: list[_Item] = []
    while queue and len(batch) < most:
        item = queue.popleft()
        if item.call.gone:
            continue
        fits = not batch or item.call.how == batch[0].call.how
        (batch if fits else kept).append(item)
    queue.extendleft(reversed(kept))
    return batch


def _answer(item: _Item, result: tuple[Hypothesis, ...]) -> None:
    call = item.call
    call.answers[item.index] = result
    if len(call.answers) == len(call.segments):
        _on_loop(
            call, lambda: call.done.set_result([call.answers[index] for index in range(len(call.segments))])
        )


def _fail(call: _Call, error: Exception) -> None:
    call.gone = True
    _on_loop(call, lambda: call.done.set_exception(error))


def _on_loop(call: _Call, settle: Callable[[], None]) -> None:
    """Run `settle` on the caller's loop unless the caller is done with it; the loop may be closed by then."""

    def guarded() -> None:
        if not call.done.done():
            settle()

    try:
        call.loop.call_soon_threadsafe(guarded)
    except RuntimeError:
        log.debug("a caller's event loop ended before its answer")
