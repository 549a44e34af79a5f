"""How long a finished build took to serve, phase by phase, as one process saw it.

Fed with the status before and after each look. A journey that this process did not see from its beginning is not
told: half a measurement would look like a fast one. Pure but for its memory of journeys under way.
"""

from collections.abc import Mapping
from datetime import datetime

from engine_operator.domain.observed import EngineStatus, Phase

_REACHED = {
    Phase.CONVERTED: ("converted",),
    Phase.ROLLING_OUT: ("converted", "rolling"),
    Phase.SERVING: ("converted", "rolling", "serving"),
}
"""What a target of this phase has behind it."""


class LagClock:
    """Journeys of revisions, by engine."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str], dict[str, datetime]] = {}
        self._revisions: dict[tuple[str, str], int] = {}

    def follow(
        self, engine: tuple[str, str], before: EngineStatus, after: EngineStatus, now: datetime
    ) -> Mapping[str, float]:
        """Seconds by phase (convert, wait, rollout, total) when a revision has just begun to serve; else empty."""
        target = after.target
        if target is None:
            self._forget(engine)
            return {}
        if before.target is None or before.target.revision != target.revision:
            self._marks[engine], self._revisions[engine] = {"noticed": now}, target.revision
        if self._revisions.get(engine) != target.revision:
            return {}
        marks = self._marks[engine]
        for mark in _REACHED.get(target.phase, ()):
            marks.setdefault(mark, now)
        if "serving" not in marks:
            return {}
        self._forget(engine)
        steps = {
            "convert": ("noticed", "converted"),
            "wait": ("converted", "rolling"),
            "rollout": ("rolling", "serving"),
            "total": ("noticed", "serving"),
        }
        return {name: (marks[end] - marks[start]).total_seconds() for name, (start, end) in steps.items()}

    def _forget(self, engine: tuple[str, str]) -> None:
        self._marks.pop(engine, None)
        self._revisions.pop(engine, None)
