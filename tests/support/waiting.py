"""Waiting for a state of the world, since no test may guess how long something takes.

`eventually` polls until a check holds; `consistently` polls to see that it keeps holding. When they give up they
say what the check saw last, and what the `describe` functions (cluster events, objects, logs) have to tell.
Neither hides an error: a check that raises anything but AssertionError (or what `retry_on` names) ends the wait.

Two units of time, one factor (`SERVAL_LIVE_TIME_FACTOR`, default 1/30; 1 in the slow run):

* `case_seconds` turns the minutes that a case speaks of into the seconds of this run: times the factor. Ratios
  between the timers of one case stay as they are, and foreign lower bounds are stated where it is called;
* waits are written in real seconds as the default run needs them. A slower run stretches them in proportion; a
  quicker one leaves them, since they are patience and cost nothing when a check holds.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from fractions import Fraction
from typing import TypeVar, cast, overload

T = TypeVar("T")
Describe = Callable[[], object]

FACTOR_VARIABLE = "SERVAL_LIVE_TIME_FACTOR"
DEFAULT_FACTOR = Fraction(1, 30)
"""Minutes of real time would eat every run's limit; a thirtieth keeps ratios visible and lasts seconds."""

INTERVAL = 0.05
"""Seconds between two looks: short against every wait, long against the cost of one HTTP call."""


def time_factor() -> float:
    """The factor of this run, a number or a fraction such as `1/30`. Raises ValueError where it is not above 0."""
    factor = Fraction(os.environ.get(FACTOR_VARIABLE) or DEFAULT_FACTOR)
    if factor <= 0:
        raise ValueError(f"{FACTOR_VARIABLE} must be above 0, not {factor}")
    return float(factor)


class CaseSeconds(float):
    """Seconds as this run needs them; no wait stretches them again."""


def case_seconds(seconds: float, at_least: float = 0.0) -> CaseSeconds:
    """Seconds in this run for a time that a case's text names; never below `at_least` (a foreign lower bound)."""
    return CaseSeconds(max(at_least, seconds * time_factor()))


def patience(seconds: float) -> float:
    """How long a wait that is written as `seconds` lasts in this run."""
    if isinstance(seconds, CaseSeconds):
        return float(seconds)
    return seconds * max(1.0, time_factor() / float(DEFAULT_FACTOR))


@overload
async def eventually(
    check: Callable[[], Awaitable[T]],
    *,
    timeout: float = ...,
    describe: Describe | Sequence[Describe] = ...,
    interval: float = ...,
    retry_on: tuple[type[Exception], ...] = ...,
) -> T: ...


@overload
async def eventually(
    check: Callable[[], T],
    *,
    timeout: float = ...,
    describe: Describe | Sequence[Describe] = ...,
    interval: float = ...,
    retry_on: tuple[type[Exception], ...] = ...,
) -> T: ...


async def eventually(
    check: Callable[[], T | Awaitable[T]],
    *,
    timeout: float = 10.0,
    describe: Describe | Sequence[Describe] = (),
    interval: float = INTERVAL,
    retry_on: tuple[type[Exception], ...] = (),
) -> T:
    """Return the check's value as soon as it is true; a check that asserts holds when it raises nothing.

    A check without a return value (None) that does not raise counts as holding. Raises AssertionError after
    `timeout` seconds, with the last value or error and everything that `describe` prints.
    """
    wait = _Wait(timeout, describe, (AssertionError, *retry_on))
    while True:
        try:
            value = check()
            if isinstance(value, Awaitable):
                value = await value
            if wait.saw(value):
                return cast(T, value)
        except wait.retry_on as error:
            wait.last = error
        wait.give_up_if_over("did not hold within")
        await asyncio.sleep(interval)


@overload
async def consistently(
    check: Callable[[], Awaitable[T]],
    *,
    for_: float = ...,
    describe: Describe | Sequence[Describe] = ...,
    interval: float = ...,
) -> T: ...


@overload
async def consistently(
    check: Callable[[], T],
    *,
    for_: float = ...,
    describe: Describe | Sequence[Describe] = ...,
    interval: float = ...,
) -> T: ...


async def consistently(
    check: Callable[[], T | Awaitable[T]],
    *,
    for_: float = 1.0,
    describe: Describe | Sequence[Describe] = (),
    interval: float = INTERVAL,
) -> T:
    """Return the last value if the check held at every look for `for_` seconds; AssertionError at the first miss."""
    wait = _Wait(for_, describe, ())
    while True:
        try:
            value = check()
            if isinstance(value, Awaitable):
                value = await value
        except AssertionError as error:
            wait.fail("stopped holding", error)
        if not wait.saw(value):
            wait.fail("stopped holding")
        if wait.over():
            return cast(T, value)
        await asyncio.sleep(interval)


def eventually_sync(
    check: Callable[[], T],
    *,
    timeout: float = 10.0,
    describe: Describe | Sequence[Describe] = (),
    interval: float = INTERVAL,
    retry_on: tuple[type[Exception], ...] = (),
) -> T:
    """`eventually` for tests without an event loop."""
    wait = _Wait(timeout, describe, (AssertionError, *retry_on))
    while True:
        try:
            value = check()
            if wait.saw(value):
                return value
        except wait.retry_on as error:
            wait.last = error
        wait.give_up_if_over("did not hold within")
        time.sleep(interval)


def consistently_sync(
    check: Callable[[], T],
    *,
    for_: float = 1.0,
    describe: Describe | Sequence[Describe] = (),
    interval: float = INTERVAL,
) -> T:
    """`consistently` for tests without an event loop."""
    wait = _Wait(for_, describe, ())
    while True:
        try:
            value = check()
        except AssertionError as error:
            wait.fail("stopped holding", error)
        if not wait.saw(value):
            wait.fail("stopped holding")
        if wait.over():
            return value
        time.sleep(interval)


class _Wait:
    """Deadline, last sight and dumps of one wait."""

    def __init__(
        self, seconds: float, describe: Describe | Sequence[Describe], retry_on: tuple[type[Exception], ...]
    ) -> None:
        self.seconds = patience(seconds)
        self.started = time.monotonic()
        self.describe = (describe,) if callable(describe) else tuple(describe)
        self.retry_on = retry_on
        self.last: object = "nothing: the check never returned"

    def saw(self, value: object) -> bool:
        """Keep the value for the report; None is the answer of a check that only asserts, so it holds."""
        self.last = value
        return value is None or bool(value)

    def over(self) -> bool:
        return time.monotonic() - self.started >= self.seconds

    def give_up_if_over(self, what: str) -> None:
        if self.over():
            self.fail(f"{what} {self.seconds:.1f} s")

    def fail(self, what: str, error: Exception | None = None) -> None:
        last = error if error is not None else self.last
        passed = time.monotonic() - self.started
        parts = [f"{what} (after {passed:.1f} s); last seen: {_shown(last)}"]
        parts += [f"--- {getattr(dump, '__name__', 'dump')} ---\n{_dumped(dump)}" for dump in self.describe]
        raise AssertionError("\n".join(parts)) from (last if isinstance(last, Exception) else None)


def _shown(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)


def _dumped(dump: Describe) -> str:
    """A dump's text; a broken dump must not hide the failure that it should explain."""
    try:
        return str(dump())
    except Exception as error:
        return f"(this dump failed: {type(error).__name__}: {error})"
