"""The three requests that wait: the next finished build, a build at a revision, the current build at a revision.

They read a snapshot and the change stream from that very point, so nothing falls in between; everything that Serval's
own long polls lose is lost here too: a cursor that is "now", the earlier of two matches in one batch, a build whose
commit comes later than its date.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.support.serval.clock import Ticks, is_object_id, stored
from tests.support.serval.domain import Build, finish_key, has_finished
from tests.support.serval.errors import Crashed, NotFound
from tests.support.serval.world import Batch, World

T = TypeVar("T")
Cursor = tuple[Ticks, str]


@dataclass(frozen=True)
class Nothing:
    """The answer 204: there is no current build."""


@dataclass(frozen=True)
class BuildQuery:
    """Which build to wait for: `revision` is the least that the caller wants to see."""

    engine_id: str
    build_id: str
    revision: int


def cursor_for(world: World, owner: str, finished_after: str | None) -> Cursor:
    """Where to go on. "Now" if the named build is unknown, deleted, not finished, or another owner's: no error.

    Raises Crashed for an id that is none.
    """
    text = finished_after or ""
    if finished_after is not None and not is_object_id(finished_after):
        raise Crashed(f"'{finished_after}' is not a valid 24 digit hex string")
    build = world.builds.get(text.lower())
    if build is None or build.owner != owner or not has_finished(build):
        return stored(world.clock.now()), text
    return finish_key(build)


async def next_finished(world: World, owner: str, finished_after: str | None, timeout: float) -> Build:
    """The caller's first finished build beyond the cursor; raises LongPollTimeout if none comes."""
    with world.lock:
        cursor = cursor_for(world, owner, finished_after)
        position = world.position
        present = [build for build in world.builds.values() if _beyond(build, owner, cursor)]
    if present:
        return min(present, key=finish_key)

    def last_match(batch: Batch) -> Build | None:
        matches = [build for build in batch.saved if _beyond(build, owner, cursor)]
        return matches[-1] if matches else None

    return await _first(world, position, timeout, last_match)


async def build_at(world: World, query: BuildQuery, timeout: float) -> Build:
    """The build once its revision is reached. Raises NotFound, LongPollTimeout, or Crashed for a malformed id."""
    if not is_object_id(query.build_id):
        raise Crashed(f"'{query.build_id}' is not a valid 24 digit hex string")

    def readable(build: Build) -> bool:
        leaks = world.settings.foreign_builds_leak
        return build.id == query.build_id and (leaks or build.engine_id == query.engine_id)

    with world.lock:
        position = world.position
        found = world.builds.get(query.build_id)
        found = found if found is not None and readable(found) else None
    if found is None and query.revision > 1:
        raise NotFound(query.build_id)
    if found is not None and found.revision >= query.revision:
        return found

    def reached(batch: Batch) -> Build | None:
        if any(readable(build) for build in batch.dropped):
            raise NotFound(query.build_id)
        hits = [build for build in batch.saved if readable(build) and build.revision >= query.revision]
        return hits[-1] if hits else None

    return await _first(world, position, timeout, reached)


async def current_build_at(world: World, engine_id: str, revision: int, timeout: float) -> Build | Nothing:
    """The engine's running build once its revision is reached; its terminal write answers too."""
    with world.lock:
        position = world.position
        current = world.current_build(engine_id)
    if current is None and revision > 1:
        return Nothing()
    if current is not None and current.revision >= revision:
        return current

    def reached(batch: Batch) -> Build | Nothing | None:
        followed = current.id if current is not None else None
        if any(build.id == followed for build in batch.dropped):
            return Nothing()
        hits = [
            build
            for build in batch.saved
            if build.engine_id == engine_id
            and build.revision >= revision
            and (build.id == followed or (followed is None and not build.state.terminal))
        ]
        return hits[-1] if hits else None

    return await _first(world, position, timeout, reached)


async def _first(world: World, position: int, timeout: float, match: Callable[[Batch], T | None]) -> T:
    async with contextlib.aclosing(world.batches(position, timeout)) as batches:
        async for batch in batches:
            found = match(batch)
            if found is not None:
                return found
    raise AssertionError("the change stream ends only by raising")


def _beyond(build: Build, owner: str, cursor: Cursor) -> bool:
    return build.owner == owner and has_finished(build) and finish_key(build) > cursor
