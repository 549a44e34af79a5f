"""The waiting helpers themselves."""

import pytest

from tests.support import waiting
from tests.support.waiting import (
    case_seconds,
    consistently,
    consistently_sync,
    eventually,
    eventually_sync,
    patience,
)


class Counter:
    """Counts looks; true from the n-th on, or only before it."""

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.looks = 0

    def late(self) -> int:
        self.looks += 1
        return self.looks if self.looks >= self.turn else 0

    def early(self) -> bool:
        self.looks += 1
        return self.looks < self.turn


async def test_eventually_returns_the_first_true_value() -> None:
    counter = Counter(3)
    assert await eventually(counter.late, interval=0.001) == 3
    assert eventually_sync(Counter(2).late, interval=0.001) == 2


async def test_async_checks_are_awaited() -> None:
    counter = Counter(2)

    async def late() -> int:
        return counter.late()

    assert await eventually(late, interval=0.001) == 2
    assert await consistently(late, for_=0.01, interval=0.001) > 2


async def test_a_check_that_asserts_is_tried_again_and_holds_without_a_value() -> None:
    counter = Counter(3)

    def asserting() -> None:
        assert counter.late(), "too early"

    await eventually(asserting, interval=0.001)
    eventually_sync(asserting, interval=0.001)
    assert counter.looks == 4


async def test_giving_up_tells_the_last_value_and_every_dump() -> None:
    def events() -> str:
        return "pod was evicted"

    def broken() -> str:
        raise ConnectionError("no cluster")

    with pytest.raises(AssertionError) as failure:
        await eventually(lambda: [], timeout=0.01, describe=[events, broken])
    text = str(failure.value)
    assert "last seen: []" in text
    assert "--- events ---\npod was evicted" in text
    assert "no cluster" in text
    with pytest.raises(AssertionError, match="pod was evicted"):
        eventually_sync(lambda: False, timeout=0.01, describe=events)


async def test_the_last_assertion_is_the_cause() -> None:
    def never() -> None:
        raise AssertionError("revision is 3")

    with pytest.raises(AssertionError, match="revision is 3") as failure:
        await eventually(never, timeout=0.01)
    assert "revision is 3" in str(failure.value.__cause__)


async def test_other_errors_end_the_wait_unless_named() -> None:
    looks = Counter(3)

    def unreachable() -> bool:
        if not looks.late():
            raise ConnectionError("refused")
        return True

    with pytest.raises(ConnectionError):
        await eventually(unreachable)
    assert await eventually(unreachable, retry_on=(ConnectionError,), interval=0.001)


async def test_consistently_fails_at_the_first_miss() -> None:
    with pytest.raises(AssertionError, match="stopped holding"):
        await consistently(Counter(3).early, for_=5, interval=0.001)
    with pytest.raises(AssertionError, match="stopped holding"):
        consistently_sync(Counter(3).early, for_=5, interval=0.001)
    assert consistently_sync(lambda: "up", for_=0.01, interval=0.001) == "up"


def test_one_factor_scales_case_times_and_stretches_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(waiting.FACTOR_VARIABLE, raising=False)
    assert (case_seconds(240), patience(10)) == (8.0, 10.0)
    assert case_seconds(60, at_least=6) == 6.0
    for text, case_time, wait in (("1", 240, 300), ("1/60", 4, 10), ("0.1", 24, 30)):
        monkeypatch.setenv(waiting.FACTOR_VARIABLE, text)
        assert (case_seconds(240), patience(10)) == pytest.approx((case_time, wait))
        assert patience(case_seconds(240)) == pytest.approx(case_time), "scaled once"
    monkeypatch.setenv(waiting.FACTOR_VARIABLE, "0")
    with pytest.raises(ValueError, match="above 0"):
        case_seconds(1)
