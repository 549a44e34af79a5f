"""Which segments are computed next: the whole policy of the scheduler, without a thread or a clock of its own.

* Only what is to be done in an equal way shares a batch, and a batch has a budget of tokens, beams included.
* Interactive calls go before bulk ones, but bulk keeps a tenth of the engine while both wait; within a priority the
  engine's time is shared equally among callers that wait, however much each of them sends. Both are start-time fair
  queueing: everybody has a clock that advances by the work done for it, and the one furthest behind leads the batch.
* Later runs of a call that was let in go before new calls of its priority: what is half done is finished first.
* The leader's batch is filled with segments that will be about as long, since a short translation beside a long one
  leaves the engine's width unused.
* After a batch whose callers ask again at once, a moment's wait (a fiftieth of what the batch took, and as much again
  from each that comes, a tenth at most) lets them come back together instead of sending the quickest of them alone.

Times are seconds of any clock that never goes back.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from math import ceil

from nllb_predictor.engine.domain import How, NextTokens, Scoring, Search, Segment
from nllb_predictor.engine.fairness import FairClock
from nllb_predictor.engine.times import TimeModel, Work


class Priority(StrEnum):
    """Who waits: a person, or a job."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


SHARES = {Priority.INTERACTIVE: 9.0, Priority.BULK: 1.0}
"""How the engine's time is divided while both wait."""

QUIET_SECONDS = 10.0
"""For so long after an interactive call bulk batches stay small, so that the next one need not wait for a large one."""

SMALL = 4
"""The divisor of such a batch's budget."""

HURRY = 1.2
"""A batch is kept so small that it meets the first deadline in it, though it takes a fifth longer than thought."""

PATIENCE = 0.02
"""How long, measured in the last batch's time, callers that were just answered may take to ask again, and then the next
of them after each."""

LONGEST_PATIENCE = 0.1
"""How long all of them may take."""

WINDOW = 4
"""From how many times a batch's segments it is chosen: more makes lengths more alike and the order less fair."""

SMALLEST_SHARE = 4
"""Segments below which a batch is not divided among workers. Each of them has cores of its own, and two halves of a
small batch end sooner than the whole: with 16 callers 2.3 sentences a second instead of 1.8."""

CHOICE = 0.9
"""Part of its fair share that a batch takes where many calls wait: what is left lets the next batch, with the calls
that come back meanwhile, choose segments of like length. Reckoned for 64 callers from the measured times of steps and
lengths of verses: 6 % more than all of it, and the most of all parts tried."""

ROW_TOKENS = 16
"""What a row of logits over the whole vocabulary costs: a quarter of a million numbers, a megabyte."""


@dataclass(frozen=True)
class Limits:
    """Sizes of the queue and of a batch in segments, batches at the same time, and a batch's budget in tokens."""

    queue: int
    batch: int
    workers: int = 1
    tokens: int = 8192


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a call: segments that are to be done in one way."""

    number: int
    """Order of arrival."""
    segments: tuple[Segment, ...]
    how: How
    deadline: float
    priority: Priority = Priority.INTERACTIVE
    caller: str = ""
    alone: bool = False
    """Whether each segment is computed by itself, so that its answer cannot depend on its neighbours."""
    later: bool = False
    """Whether the call has run before."""


@dataclass(frozen=True, eq=False)
class Item:
    """One segment that waits."""

    run: Run
    index: int
    work: Work
    since: float

    @property
    def segment(self) -> Segment:
        return self.run.segments[self.index]


@dataclass
class _Lane:
    """What waits for one caller with one priority."""

    later: deque[Item] = field(default_factory=deque)
    new: deque[Item] = field(default_factory=deque)
    tokens: float = 0.0

    def __iter__(self) -> Iterator[Item]:
        yield from self.later
        yield from self.new

    def __len__(self) -> int:
        return len(self.later) + len(self.new)

    def first(self) -> Item:
        return self.later[0] if self.later else self.new[0]

    def add(self, items: Sequence[Item], later: bool) -> None:
        (self.later if later else self.new).extend(items)
        self.tokens += sum(item.work.tokens for item in items)

    def keep(self, wanted: set[int]) -> None:
        """Only items whose identity is in `wanted`."""
        self.later = deque(item for item in self.later if id(item) in wanted)
        self.new = deque(item for item in self.new if id(item) in wanted)
        self.tokens = sum(item.work.tokens for item in self)


@dataclass(frozen=True)
class _Room:
    """What a batch may hold, and when it begins."""

    tokens: float
    segments: int
    now: float


LaneKey = tuple[Priority, str]


class Queue:
    """Segments that wait. Not safe for several threads; the scheduler locks."""

    def __init__(self, limits: Limits, times: TimeModel) -> None:
        self._limits = limits
        self._times = times
        self._lanes: dict[LaneKey, _Lane] = {}
        self._classes: FairClock[Priority] = FairClock()
        self._callers: FairClock[LaneKey] = FairClock()
        self._last_interactive = float("-inf")
        self._expected = 0
        self._moment = 0.0
        self._until = self._latest = float("-inf")

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    @property
    def tokens(self) -> float:
        """What waits, in tokens."""
        return sum(lane.tokens for lane in self._lanes.values())

    def of_caller(self, caller: str) -> int:
        """Segments that wait for one caller, both priorities."""
        return sum(len(lane) for (_, name), lane in self._lanes.items() if name == caller)

    def ahead(self, priority: Priority, caller: str) -> float:
        """Tokens that will be computed before a new call's first: what waits before it by priority, but no more than
        the fair turns of the other callers while its own earlier segments are done."""
        total = sum(lane.tokens for key, lane in self._lanes.items() if _before(key[0], priority))
        own = self._lanes.get((priority, caller))
        if caller and total:
            turns = sum(1 for key in self._lanes if key[0] is priority and key[1] != caller) + 1
            total = min(total, turns * ((own.tokens if own else 0.0) + self._times.segment))
        return total

    def put(self, run: Run, now: float) -> None:
        """Let all segments of a run wait."""
        key = (run.priority, run.caller)
        if not any(each is run.priority for each, _ in self._lanes):
            self._classes.join(run.priority)
        if key not in self._lanes:
            self._callers.join(key)
            self._lanes[key] = _Lane()
        if run.priority is Priority.INTERACTIVE:
            self._last_interactive = now
        items = [
            Item(run, index, work_of(segment, run.how, self._times.ratio), now)
            for index, segment in enumerate(run.segments)
        ]
        self._lanes[key].add(items, run.later)
        if now < self._until:
            self._until = min(now + self._moment, self._latest)

    def drop(self, run: Run) -> int:
        """Forget what still waits of a run; how many segments that was."""
        key = (run.priority, run.caller)
        lane = self._lanes.get(key)
        if lane is None:
            return 0
        before = len(lane)
        self._keep(key, [item for item in lane if item.run is not run])
        return before - len(lane)

    def clear(self) -> list[Run]:
        """Forget everything; the runs that waited."""
        runs = {item.run.number: item.run for lane in self._lanes.values() for item in lane}
        for key in list(self._lanes):
            self._keep(key, [])
        return list(runs.values())

    def pause(self, now: float) -> float:
        """Seconds that it is worth to wait before `take`, for callers that were just answered; 0 takes now."""
        enough = min(self._expected, self._limits.workers * self._limits.batch)
        if not self._lanes or len(self) >= enough:
            return 0.0
        return max(0.0, self._until - now)

    def answered(self, calls: int, seconds: float, now: float) -> None:
        """A batch of so many calls ended; they may ask again at once."""
        self._expected = len(self) + calls
        self._moment = PATIENCE * seconds
        self._until, self._latest = now + self._moment, now + LONGEST_PATIENCE * seconds

    def take(self, now: float, running: int = 0) -> list[Item]:
        """Remove and return the next batch; empty where nothing waits. What is past its deadline is dropped.

        `running` segments are being computed by others, so that this batch leaves them their share.
        """
        self._expire(now)
        if not self._lanes:
            return []
        priority = self._classes.choose({key[0] for key in self._lanes}, list(Priority).index)
        lanes = {key: lane for key, lane in self._lanes.items() if key[0] is priority}
        unfinished = [key for key, lane in lanes.items() if lane.later]
        key = self._callers.choose(
            unfinished or lanes, lambda each: lanes[each].first().run.number, self._lanes
        )
        lead = lanes[key].first()
        batch = [lead]
        if fills_up(lead):
            room = _Room(self._budget(priority, now), self._share(running), now)
            batch = self._filled(lead, self._fitting(lead, lanes), room)
        self._remove(batch)
        self._charge(batch)
        return batch

    def _share(self, running: int) -> int:
        """Segments of the next batch."""
        calls = len({item.run.number for lane in self._lanes.values() for item in lane})
        return share(len(self) + running, self._limits, CHOICE if 2 * calls > len(self) else 1.0)

    def _charge(self, batch: Sequence[Item]) -> None:
        if not self._lanes:
            self._classes.rest()
            self._callers.rest()
            return
        for item in batch:
            self._callers.charge((item.run.priority, item.run.caller), item.work.tokens)
            self._classes.charge(item.run.priority, item.work.tokens / SHARES[item.run.priority])
        tokens = sum(item.work.tokens for item in batch)
        self._callers.advance(tokens / len(self._lanes))
        self._classes.advance(tokens / sum(SHARES[each] for each in {key[0] for key in self._lanes}))

    def _expire(self, now: float) -> None:
        for key, lane in list(self._lanes.items()):
            if any(item.run.deadline <= now for item in lane):
                self._keep(key, [item for item in lane if item.run.deadline > now])

    def _remove(self, items: Sequence[Item]) -> None:
        gone = {id(item) for item in items}
        for key in {(item.run.priority, item.run.caller) for item in items}:
            self._keep(key, [item for item in self._lanes[key] if id(item) not in gone])

    def _keep(self, key: LaneKey, items: Sequence[Item]) -> None:
        self._lanes[key].keep({id(item) for item in items})
        if not items:
            del self._lanes[key]

    def _fitting(self, lead: Item, lanes: dict[LaneKey, _Lane]) -> list[Item]:
        """The leader and those that could share its batch: unfinished calls first, then callers in turn."""
        turn = sorted(lanes, key=self._callers.served)
        columns = [[item for item in lanes[key] if compatible(lead, item)] for key in turn]
        rows = [
            item for row in zip_longest(*columns) for item in row if item is not None and item is not lead
        ]
        rows.sort(key=lambda item: not item.run.later)
        return [lead, *rows][: WINDOW * self._limits.batch]

    def _budget(self, priority: Priority, now: float) -> float:
        """Tokens of a batch."""
        busy = priority is Priority.BULK and now - self._last_interactive < QUIET_SECONDS
        return self._limits.tokens / (SMALL if busy else 1)

    def _filled(self, lead: Item, items: list[Item], room: _Room) -> list[Item]:
        """The run of about equally long items around the leader that does most work per second within the room."""
        items = sorted(items, key=lambda item: item.work.steps)
        at = next(place for place, item in enumerate(items) if item is lead)
        best, fastest = [lead], 0.0
        for start in range(max(0, at - room.segments + 1), at + 1):
            batch, seconds, tokens = self._fitted(items[start : start + room.segments], room)
            if len(batch) > at - start and tokens / seconds > fastest:
                best, fastest = batch, tokens / seconds
        return best

    def _fitted(self, items: list[Item], room: _Room) -> tuple[list[Item], float, float]:
        """The first of the items that fit together, by tokens and by the time that each of them has left; what they
        take in the model's seconds, and their tokens. One fits always. The engine reads each as if it were as long as
        the longest, and its memory grows with that: a long line among short ones must not ask for a multiple."""
        total, seconds, until, longest = 0.0, 1.0, float("inf"), 0
        for count, item in enumerate(items):
            longest = max(longest, item.work.source)
            tokens = total + item.work.tokens
            longer = self._times.batch_cost(item.work.steps, tokens)
            if self._in_time(item, room.now):
                until = min(until, item.run.deadline)
            late = self._times.known and room.now + HURRY * longer > until
            padded = (count + 1) * longest
            if count and (max(tokens, padded) > room.tokens or late):
                return items[:count], seconds, total
            total, seconds = tokens, longer
        return items, seconds, total

    def _in_time(self, item: Item, now: float) -> bool:
        """Whether it could meet its deadline if it were computed alone at once. What cannot is tried, and makes nobody
        else's batch small: one late segment after the other, each alone, would make all the others late."""
        return now + HURRY * self._times.batch_cost(item.work.steps, item.work.tokens) <= item.run.deadline


def share(segments: int, limits: Limits, part: float = 1.0) -> int:
    """Segments of one batch where so many wait or run. Several workers divide them, but not into batches so small
    that reading the weights costs more than computing; a single one has nobody to leave them to."""
    if limits.workers <= 1:
        return limits.batch
    return min(limits.batch, max(ceil(part * segments / limits.workers), SMALLEST_SHARE))


def _before(one: Priority, other: Priority) -> bool:
    """Whether `one` is served before `other` or with it."""
    order = list(Priority)
    return order.index(one) <= order.index(other)


def fills_up(lead: Item) -> bool:
    """Whether others may join the batch that `lead` leads."""
    return not lead.run.alone


def compatible(lead: Item, other: Item) -> bool:
    """Whether two segments may be computed together."""
    return not other.run.alone and other.run.how == lead.run.how


def work_of(segment: Segment, how: How, ratio: float) -> Work:
    """What a segment will likely cost; `ratio` is tokens written per token read."""
    source, prefix = len(segment.tokens), len(segment.prefix)
    if isinstance(how, Search):
        new = min(float(how.max_tokens), ratio * source + 2)
        return Work(prefix + new, source + prefix + how.beams * new, source)
    if isinstance(how, Scoring):
        return Work(1.0, source + prefix + 2, source)
    assert isinstance(how, NextTokens)
    return Work(prefix + 2.0, source + ROW_TOKENS * (prefix + 2.0), source)
