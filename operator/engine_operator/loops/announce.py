"""What a sweep tells as Events on its ServalSource: what gets no resource has no other place to be told.

Pure: what is new is found by comparing with what status told before, so a restart repeats nothing.
"""

from collections.abc import Iterable

from engine_operator.cluster.events import Note
from engine_operator.cluster.resources import SERVAL_SOURCES
from engine_operator.domain import reasons
from engine_operator.domain.actions import EventType
from engine_operator.domain.discovery import Skipped, newly_skipped
from engine_operator.domain.engine import SourceSpec
from engine_operator.serval.dto import Build


def skipped_notes(source: SourceSpec, old: tuple[Skipped, ...], new: tuple[Skipped, ...]) -> tuple[Note, ...]:
    """One for each engine that can't be served, of those that status lists."""
    return tuple(
        _note(source, EventType.NORMAL, one.reason, f"engine {one.engine_id} ({one.name}): {one.message}")
        for one in newly_skipped(old, new)
    )


def unfinished_notes(source: SourceSpec, builds: Iterable[Build]) -> tuple[Note, ...]:
    """One for each build that ended without a model."""
    return tuple(_note(source, EventType.WARNING, reasons.NOT_COMPLETED, _ending(one)) for one in builds)


def _ending(build: Build) -> str:
    return f"build {build.id} of engine {build.engine.id} ended as {build.state.value}: {build.message or 'no message'}"


def _note(source: SourceSpec, kind: EventType, reason: str, message: str) -> Note:
    return Note(SERVAL_SOURCES, source.namespace, source.name, source.uid, kind.value, reason, message)
