"""Warm windows: when an engine is kept awake, from cron expressions and the clock of a place.

Pure. `warmth` says what holds now and when that may change, so that nobody has to look in between. A window is open
from a moment of `start` to the next moment of `end`; both are read by the wall clock of the window's zone, so that six
o'clock stays six o'clock when daylight saving begins. What can't be read keeps nothing warm and is told; it stops
nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WarmWindow:
    """One window as written."""

    start: str
    """Cron expression of five fields."""
    end: str
    time_zone: str = "UTC"
    """IANA name."""
    replicas: int = 1

    def __str__(self) -> str:
        return f"{self.start} to {self.end} {self.time_zone}"


@dataclass(frozen=True)
class Warmth:
    """What windows ask for at one moment."""

    replicas: int = 0
    """Pods to keep; 0 lets the engine sleep."""
    until: datetime | None = None
    """When the last of the windows that are open now closes (UTC)."""
    changes: datetime | None = None
    """The next moment at which anything of this may change (UTC); None without a window that can be read."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Open:
    """The next moments of one window."""

    starts: datetime
    ends: datetime

    @property
    def now(self) -> bool:
        """It closes before it opens again, so it is open. One that never closes before is no window."""
        return self.ends < self.starts


def warmth(now: datetime, windows: Iterable[WarmWindow]) -> Warmth:
    """What holds at `now` (aware); windows that overlap add up to their longest and their largest."""
    found = Warmth()
    for window in windows:
        try:
            seen = _next(now, window)
        except (CronSimError, StopIteration, KeyError, ValueError, OSError) as error:
            problem = f"{window}: {error or type(error).__name__}"
            found = Warmth(found.replicas, found.until, found.changes, (*found.problems, problem))
            continue
        changes = min(one for one in (seen.starts, seen.ends, found.changes) if one is not None)
        if not seen.now:
            found = Warmth(found.replicas, found.until, changes, found.problems)
            continue
        until = seen.ends if found.until is None else max(found.until, seen.ends)
        found = Warmth(max(found.replicas, window.replicas), until, changes, found.problems)
    return found


def _next(now: datetime, window: WarmWindow) -> _Open:
    """Moments after `now`, in UTC: two times of one zone would be compared by what their clocks show."""
    local = now.astimezone(ZoneInfo(window.time_zone))
    starts, ends = (
        next(CronSim(expression, local)).astimezone(UTC) for expression in (window.start, window.end)
    )
    return _Open(starts, ends)


def window_problems(windows: Iterable[WarmWindow]) -> tuple[str, ...]:
    """Windows that can't be read, whatever the time, each with what is wrong."""
    return warmth(_ANY_TIME, windows).problems
