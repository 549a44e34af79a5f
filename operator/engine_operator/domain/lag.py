"""How long a finished build took to serve, phase by phase, as one process saw it.

Fed with the status before and after each look, and with what the poll says of finished builds. A journey that this
process did not see from its beginning is not told: half a measurement would look like a fast one. Pure but for its
memory of journeys under way.
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

_Engine = tuple[str, str]
"""Namespace, and the engine's name or Serval's id of it."""


class LagClock:
    """Journeys of revisions, by engine."""

    def __init__(self) -> None:
        self._marks: dict[_Engine, dict[str, datetime]] = {}
        self._revisions: dict[_Engine, int] = {}
        self._finished: dict[_Engine, datetime] = {}
        self._told: dict[_Engine, datetime] = {}

    def finished(self, build: _Engine, at: datetime) -> None:
        """A build of this engine (namespace and Serval's id) completed at this time, by Serval's clock."""
        self._finished[build] = at

    def follow(
        self, engine: _Engine, build: _Engine, statuses: tuple[EngineStatus, EngineStatus], now: datetime
    ) -> Mapping[str, float]:
        """Seconds by phase when a revision has just begun to serve; else empty.

        `build`: the engine as `finished` knows it. `statuses`: before and after. Phases: notice (from the end of the
        build; only where the poll announced it), convert, wait, rollout, and total, which begins where they begin.
        """
        before, after = statuses
        target = after.target
        if target is None:
            self._forget(engine)
            return {}
        if before.target is None or before.target.revision != target.revision:
            if engine in self._marks:  # Overtaken: whatever was announced by then was about the older build.
                self._told[engine] = self._marks[engine]["noticed"]
            self._marks[engine], self._revisions[engine] = {"noticed": now}, target.revision
        if self._revisions.get(engine) != target.revision:
            return {}
        marks = self._marks[engine]
        for mark in _REACHED.get(target.phase, ()):
            marks.setdefault(mark, now)
        if "serving" not in marks:
            return {}
        self._forget(engine)
        return _phases(marks, self._end_of_build(engine, build, marks["noticed"]))

    def _end_of_build(self, engine: _Engine, build: _Engine, noticed: datetime) -> datetime | None:
        """When the build of this journey finished; one that an earlier journey was about is of no use.

        Two clocks: by Serval's, a build may finish a moment after it was noticed.
        """
        finished, told = self._finished.get(build), self._told.get(engine)
        if finished is None or (told is not None and finished <= told):
            return None
        self._told[engine] = finished
        return min(finished, noticed)

    def _forget(self, engine: _Engine) -> None:
        self._marks.pop(engine, None)
        self._revisions.pop(engine, None)


def _phases(marks: Mapping[str, datetime], finished: datetime | None) -> dict[str, float]:
    begin = marks["noticed"] if finished is None else finished
    steps = {
        "convert": (marks["noticed"], marks["converted"]),
        "wait": (marks["converted"], marks["rolling"]),
        "rollout": (marks["rolling"], marks["serving"]),
        "total": (begin, marks["serving"]),
    }
    if finished is not None:
        steps["notice"] = (begin, marks["noticed"])
    return {name: (end - start).total_seconds() for name, (start, end) in steps.items()}
