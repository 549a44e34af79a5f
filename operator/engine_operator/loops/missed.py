"""Which new models a sweep found although no poll ever announced them: the figure of a long poll that misses builds.

A sweep may be quicker than the poll that it competes with, so that nothing counts as missed before the poll had its
time. After a start everything is compared with what the resources' statuses knew, since builds that finish while
nobody polls are just those that a poll can miss.
"""

import time
from collections.abc import Callable, Collection, Mapping

from engine_operator.cluster.crs import engine_spec
from engine_operator.cluster.engine_status import read_engine_status
from engine_operator.cluster.reader import Survey
from engine_operator.domain.keys import EngineId
from engine_operator.domain.serval_facts import ServalEngine
from engine_operator.errors import UsageError

ANNOUNCED_WITHIN = 60.0
"""Seconds in which a poll may still announce what a sweep has found already: Serval tells within one."""


class Missed:
    """Remembers the revisions of one source."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`patience`: seconds in which a poll may still announce what a sweep has found."""
        self._patience = patience
        self._clock = clock
        self._known: dict[EngineId, int] | None = None
        self._waiting: dict[EngineId, tuple[int, float]] = {}

    @property
    def begun(self) -> bool:
        """Whether there is something to compare with."""
        return self._known is not None

    def begin(self, known: Mapping[EngineId, int]) -> None:
        """Compare with these from now on."""
        self._known = dict(known)

    def found(self, listed: Mapping[EngineId, int], announced: Collection[EngineId]) -> dict[EngineId, int]:
        """Take in a sweep's list and what was announced since the last one; revisions that count as missed now."""
        now = self._clock()
        for engine, revision in listed.items():
            if self._known is not None and revision > self._known.get(engine, 0):
                self._waiting[engine] = (revision, now)
        self._known = dict(listed)
        for engine in announced:
            self._waiting.pop(engine, None)
        missed = {e: r for e, (r, since) in self._waiting.items() if now - since >= self._patience}
        for engine in missed:
            del self._waiting[engine]
        return missed


def revisions_before(
    listed: Collection[ServalEngine], made: Collection[EngineId], survey: Survey, polled: bool
) -> dict[EngineId, int]:
    """What was known before this process started, for the engines of a list.

    `made`: engines that get their first resource now. `polled`: a poll had begun before; without one everything that
    there is was there before. An engine that a person pinned or suspended follows no build, so nothing of it is missed.
    """
    known = {one.id: one.model_revision for one in listed}
    if not polled:
        return known
    for objects in survey.engines.values():
        try:
            engine = engine_spec(objects.engine)
        except UsageError:
            continue  # The sweep tells of it.
        target = read_engine_status(objects.engine.get("status") or {}).target
        if engine.engine_id in known and target is not None and engine.pinned is None:
            known[engine.engine_id] = min(known[engine.engine_id], target.revision)
    return known | {engine: 0 for engine in made if engine in known}
