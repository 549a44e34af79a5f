"""When engines are looked at: never twice at once, side by side, soon while something moves, rarely when not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

from engine_operator.cluster.reader import EngineObjects
from engine_operator.domain.observed import Phase
from engine_operator.errors import ServalUnreachable
from engine_operator.loops.board import Board
from engine_operator.loops.engines import EngineLoop, Rhythm
from engine_operator.loops.inbox import EngineKey, Inbox
from engine_operator.loops.look import Looked, Looker
from tests.support.waiting import consistently, eventually

A, B = EngineKey("ns", "a"), EngineKey("ns", "b")
RHYTHM = Rhythm(debounce=0.01, follow=0.05, collect=1000.0, trust=1000.0, longest_retry=0.2, turn=100.0)
SETTLED = Looked(phase=Phase.SERVING, revision=1, fingerprint=("same",))


class Looks:
    """Plays the looker: remembers looks, answers as told, and can be slow."""

    def __init__(self) -> None:
        self.began: list[EngineKey] = []
        self.collected: list[EngineKey] = []
        self.at_once: dict[EngineKey, int] = {}
        self.overlapped = False
        self.answers: dict[EngineKey, Callable[[], Looked | None]] = {}
        self.slow: set[EngineKey] = set()
        self.glances: dict[EngineKey, Looked | None] = {}

    async def glance(self, key: EngineKey, known: EngineObjects) -> Looked | None:
        return self.glances[key]

    async def look(self, key: EngineKey, collect: bool) -> Looked | None:
        self.began.append(key)
        if collect:
            self.collected.append(key)
        self.at_once[key] = self.at_once.get(key, 0) + 1
        self.overlapped |= self.at_once[key] > 1
        try:
            await asyncio.sleep(10 if key in self.slow else 0)
            return self.answers.get(key, lambda: SETTLED)()
        finally:
            self.at_once[key] -= 1

    def count(self, key: EngineKey) -> int:
        return self.began.count(key)


@asynccontextmanager
async def running(
    looks: Looks, board: Board | None = None, rhythm: Rhythm = RHYTHM
) -> AsyncIterator[tuple[EngineLoop, Inbox]]:
    """A loop that runs."""
    inbox = Inbox()
    loop = EngineLoop(inbox, cast(Looker, looks), board or Board(), rhythm, parallel=4)
    task = asyncio.create_task(loop.run())
    try:
        yield loop, inbox
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_hundred_touches_are_one_look_and_a_settled_engine_is_left_in_peace() -> None:
    looks = Looks()
    async with running(looks) as (loop, inbox):
        for _ in range(100):
            inbox.touch_engine(A)
        await eventually(lambda: loop.settled_with(A) == ("same",))
        await consistently(lambda: looks.count(A) <= 2, for_=0.3)


async def test_p72_an_engine_at_rest_is_looked_at_when_its_artifact_is_no_longer_taken_for_granted() -> None:
    looks = Looks()
    looks.answers[B] = lambda: Looked(phase=None, revision=None, fingerprint=("nothing is served",))
    async with running(looks, rhythm=replace(RHYTHM, trust=0.1)) as (loop, _):
        loop.schedule(A)
        loop.schedule(B)
        await eventually(lambda: looks.count(A) >= 5)
    assert looks.count(B) == 1


async def test_an_engine_at_work_is_followed_until_it_settles() -> None:
    looks = Looks()
    left = [Looked(phase=Phase.CONVERTING)] * 5
    looks.answers[A] = lambda: left.pop() if left else SETTLED
    async with running(looks) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: loop.settled_with(A) is not None)
        assert looks.count(A) >= 6


async def test_a12_a_look_that_hangs_holds_up_no_other_engine_and_is_never_doubled() -> None:
    looks = Looks()
    looks.slow.add(A)
    async with running(looks) as (loop, inbox):
        loop.schedule(A)
        await eventually(lambda: looks.count(A) == 1)
        for _ in range(5):
            inbox.touch_engine(A)
            inbox.touch_engine(B)
            await asyncio.sleep(0.05)
        assert looks.count(B) >= 1
        assert looks.count(A) == 1
    assert not looks.overlapped


async def test_a_failure_that_says_nothing_about_the_engine_is_tried_again_ever_more_slowly() -> None:
    looks = Looks()
    looks.answers[A] = lambda: Looked(passing=ServalUnreachable("away"))
    async with running(looks) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: looks.count(A) >= 4)
        looks.answers[A] = lambda: SETTLED
        await eventually(lambda: loop.settled_with(A) is not None)


async def test_a_defect_at_one_engine_is_survived_by_all() -> None:
    def defect() -> Looked:
        raise ZeroDivisionError

    looks = Looks()
    looks.answers[A] = defect
    async with running(looks) as (loop, _):
        loop.schedule(A)
        loop.schedule(B)
        await eventually(lambda: looks.count(A) >= 2 and loop.settled_with(B) is not None)


async def test_engines_that_wait_for_a_place_are_looked_at_when_one_becomes_free() -> None:
    looks, board = Looks(), Board()
    waiting = [Looked(phase=Phase.PENDING)]
    looks.answers[B] = lambda: waiting.pop() if waiting else SETTLED
    working = [Looked(phase=Phase.CONVERTING)] * 3
    looks.answers[A] = lambda: working.pop() if working else SETTLED
    async with running(looks, board) as (loop, _):
        loop.schedule(B)
        await eventually(lambda: board.phase(B) is Phase.PENDING)
        loop.schedule(A)
        await eventually(lambda: loop.settled_with(B) is not None)


async def test_garbage_is_looked_for_after_another_revision_serves_and_not_before_one_does() -> None:
    looks = Looks()
    looks.answers[A] = lambda: Looked(phase=Phase.ROLLING_OUT)
    async with running(looks) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: looks.count(A) >= 3)
        assert looks.collected == []
        looks.answers[A] = lambda: Looked(phase=Phase.SERVING, revision=2, acted=len(looks.collected) == 0)
        await eventually(lambda: looks.collected == [A])


async def test_an_engine_that_is_gone_is_forgotten() -> None:
    looks, board = Looks(), Board()
    looks.answers[A] = lambda: None
    board.enters(A, Phase.CONVERTING)
    async with running(looks, board) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: board.phase(A) is None)
        await consistently(lambda: looks.count(A) == 1, for_=0.2)


def test_places_are_counted_without_the_one_who_asks() -> None:
    board = Board()
    board.enters(A, Phase.CONVERTING)
    board.enters(B, Phase.CONVERTING)
    assert board.busy(Phase.CONVERTING, but=A) == 1
    board.enters(B, None)
    assert board.busy(Phase.CONVERTING, but=A) == 0


async def test_an_engine_is_looked_at_when_a_window_opens_or_closes() -> None:
    looks = Looks()
    opens = datetime.now(UTC) + timedelta(seconds=0.4)
    looks.answers[A] = lambda: replace(SETTLED, changes=opens if datetime.now(UTC) < opens else None)
    async with running(looks) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: looks.count(A) == 1)
        await eventually(lambda: looks.count(A) >= 2 and datetime.now(UTC) >= opens)
        seen = looks.count(A)
        await consistently(lambda: looks.count(A) == seen, for_=0.3)
    assert seen == 2


KNOWN = EngineObjects({"metadata": {"uid": "u", "resourceVersion": "5"}})


async def test_an_engine_that_a_survey_read_is_read_again_only_where_there_is_something_to_do() -> None:
    looks = Looks()
    looks.glances = {A: SETTLED, B: None}
    async with running(looks) as (loop, _):
        loop.offer(A, KNOWN)
        loop.offer(B, KNOWN)
        await eventually(lambda: None not in (loop.settled_with(A), loop.settled_with(B)))
        assert looks.began == [B]


async def test_an_event_of_what_was_seen_already_is_no_reason_to_look() -> None:
    looks = Looks()
    looks.glances = {A: Looked(phase=Phase.SERVING, revision=1, fingerprint=(KNOWN.fingerprint(),))}
    async with running(looks) as (loop, inbox):
        inbox.ignores = loop.saw
        loop.offer(A, KNOWN)
        inbox.touch_engine(A, ("u", "5"))
        await eventually(lambda: loop.settled_with(A) is not None)
        inbox.touch_engine(A, ("u", "5"))
        await consistently(lambda: not looks.began, for_=0.1)
        inbox.touch_engine(A, ("u", "6"))
        await eventually(lambda: looks.began == [A])


async def test_a_free_place_is_offered_to_the_next_few_and_not_to_everybody_who_waits() -> None:
    looks, board = Looks(), Board()
    crowd = [EngineKey("ns", f"w{number:03d}") for number in range(50)]
    for key in crowd:
        board.enters(key, Phase.PENDING)
    left = [Looked(phase=Phase.CONVERTING)]
    looks.answers[A] = lambda: left.pop() if left else SETTLED
    async with running(looks, board) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: looks.count(crowd[0]) == 1)
        await eventually(lambda: looks.count(A) >= 2)
        await consistently(lambda: not set(looks.began) & set(crowd[10:]), for_=0.2)


async def test_everybody_who_waits_is_looked_at_in_turn_when_the_first_can_not_take_the_place() -> None:
    looks, board = Looks(), Board()
    crowd = [EngineKey("ns", f"w{number:03d}") for number in range(20)]
    for key in crowd:
        board.enters(key, Phase.PENDING)
        looks.answers[key] = lambda: Looked(phase=Phase.PENDING)
    left = [Looked(phase=Phase.CONVERTING)]
    looks.answers[A] = lambda: left.pop() if left else SETTLED
    async with running(looks, board, replace(RHYTHM, turn=0.01)) as (loop, _):
        loop.schedule(A)
        await eventually(lambda: set(crowd) <= set(looks.began))


async def test_an_engine_that_waits_to_be_corrected_is_looked_at_when_another_is_done() -> None:
    looks = Looks()
    looks.answers[B] = lambda: replace(SETTLED, held=looks.count(B) < 3)
    left = [Looked(phase=Phase.ROLLING_OUT)]
    looks.answers[A] = lambda: left.pop() if left else SETTLED
    async with running(looks) as (loop, _):
        loop.schedule(B)
        await eventually(lambda: loop.settled_with(B) is not None)
        before = looks.count(B)
        loop.schedule(A)
        await eventually(lambda: looks.count(B) > before)
