"""When the next try may start: exponential, capped, spread, and the same after a restart.

Nothing is kept in memory; the caller stores the result in status. The spread comes from the engine's name, so that
fifty engines that failed together do not come back together.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from engine_operator.domain.keys import digest


@dataclass(frozen=True)
class Backoff:
    """Delays between attempts."""

    first: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=30)
    max_attempts: int = 6
    """Tries per stage and revision, the first one included; after the last a person, or the next build, has to act."""
    spread: float = 0.2
    """Share of the delay that is spread over engines."""

    def delay(self, attempts: int, seed: str) -> timedelta:
        """Delay after `attempts` tries (at least 1), between `1 - spread` and 1 times the exponential value."""
        base = min(self.cap, self.first * self.factor ** min(attempts - 1, 32))
        share = int(digest(seed, str(attempts), length=8), 16) / 0xFFFFFFFF
        return base * (1 - self.spread * share)

    def next_retry(self, attempts: int, seed: str, now: datetime) -> datetime | None:
        """Time of the next try, or None when none is left."""
        if attempts >= self.max_attempts:
            return None
        return now + self.delay(attempts, seed)
