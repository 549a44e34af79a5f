"""The chain of waiting times, and back-off."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_operator.domain.backoff import Backoff
from engine_operator.domain.budget import (
    WakeBudget,
    broken,
    conversion_deadline,
    conversion_resources,
    time_chain,
)
from tests.unit.operator.domain.world import START

MINUTES = st.integers(0, 30).map(lambda m: timedelta(minutes=m))
DELAY, WINDOW = timedelta(minutes=10), timedelta(seconds=10)


def test_defaults_add_up_to_a_quarter_of_an_hour() -> None:
    assert WakeBudget().total == timedelta(minutes=15)
    assert broken(time_chain(WakeBudget(), DELAY, WINDOW)) == ()


@pytest.mark.parametrize(
    ("cap", "response", "warned"),
    [(None, 600, True), (600, 600, True), (900, 900, False), (3600, 900, False)],
)
def test_response_start_never_exceeds_the_clusters_cap(cap: int | None, response: int, warned: bool) -> None:
    chain = time_chain(WakeBudget(), DELAY, WINDOW, cap)
    assert chain.response_start == timedelta(seconds=response)
    assert (chain.cap_warning is not None) is warned
    if chain.cap_warning is not None:
        assert '"max-revision-timeout-seconds":"900"' in chain.cap_warning


@given(MINUTES, MINUTES, MINUTES, st.integers(1, 2000))
def test_inequalities_hold_for_every_budget_that_can_hold_a_caller(
    boot: timedelta, pull: timedelta, load: timedelta, cap: int
) -> None:
    chain = time_chain(WakeBudget(node_boot=boot, image_pull=pull, load=load), DELAY, WINDOW, cap)
    assert chain.progress_deadline >= chain.wake
    assert chain.response_start <= min(chain.wake, timedelta(seconds=cap))
    assert broken(chain) == () or cap < 50


@pytest.mark.parametrize(
    ("delay", "window", "word"),
    [
        (timedelta(seconds=5), WINDOW, "Retry-After"),
        (timedelta(hours=2), WINDOW, "1 h"),
        (DELAY, timedelta(seconds=5), "window"),
    ],
)
def test_broken_inequality_is_named(delay: timedelta, window: timedelta, word: str) -> None:
    found = broken(time_chain(WakeBudget(), delay, window))
    assert len(found) == 1
    assert word in found[0]


def test_conversion_gets_time_disk_and_memory_from_its_size() -> None:
    small, large = 10_000_000, 5_500_000_000
    assert conversion_deadline(large, WakeBudget()) > conversion_deadline(small, WakeBudget()) > 15 * 60 - 120
    memory = [
        int(conversion_resources(size).requests["memory"].removesuffix("Mi")) for size in (small, large)
    ]
    assert memory[0] < 600
    assert memory[1] >= 0.6 * large / 2**20
    disk = int(conversion_resources(large).requests["ephemeral-storage"].removesuffix("Mi"))
    assert disk >= 3 * large / 2**20


@given(st.integers(1, 40), st.text(max_size=20))
def test_delays_grow_are_capped_and_are_the_same_after_a_restart(attempts: int, seed: str) -> None:
    backoff = Backoff()
    delay = backoff.delay(attempts, seed)
    assert delay == backoff.delay(attempts, seed)
    base = min(backoff.cap, backoff.first * 2 ** (attempts - 1))
    assert base * (1 - backoff.spread) <= delay <= base


def test_engines_that_failed_together_do_not_come_back_together() -> None:
    times = {Backoff().next_retry(5, f"live/e{n}", START) for n in range(50)}
    assert len(times) >= 48


def test_last_attempt_has_no_next() -> None:
    backoff = Backoff(max_attempts=3)
    assert backoff.next_retry(2, "x", START) is not None
    assert backoff.next_retry(3, "x", START) is None
