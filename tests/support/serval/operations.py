"""What callers of the API may do to engines and builds, in Serval's order of checks.

Each function takes the world and the caller's owner name, and raises from the error tree. Waiting is in `polls`, model
files in `archives`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.support.serval import languages
from tests.support.serval.clock import Ticks, is_object_id, stored
from tests.support.serval.domain import (
    Build,
    Engine,
    EngineType,
    JobState,
    Languages,
    Request,
    cancel_asked,
)
from tests.support.serval.errors import Conflict, Forbidden, Invalid, NotFound, RuleBroken
from tests.support.serval.world import World

T = TypeVar("T")


@dataclass(frozen=True)
class NewEngine:
    """The body of an engine's creation."""

    source_language: str
    target_language: str
    type: EngineType
    name: str | None = None
    is_model_persisted: bool | None = None


def owned_engine(world: World, owner: str, engine_id: str) -> Engine:
    """The engine. Raises NotFound (malformed ids too), then Forbidden."""
    engine = world.engines.get(engine_id)
    if engine is None:
        raise NotFound(engine_id)
    if engine.owner != owner:
        raise Forbidden(engine_id)
    return engine


def engines_of(world: World, owner: str) -> list[Engine]:
    """All of the owner's engines, in no order."""
    with world.lock:
        return shuffled(world, [engine for engine in world.engines.values() if engine.owner == owner])


def create_engine(world: World, owner: str, new: NewEngine) -> tuple[Engine, Ticks]:
    """The stored engine, and its creation time before the database cut it. Raises RuleBroken for echo."""
    if new.type is EngineType.ECHO and new.source_language != new.target_language:
        raise RuleBroken("Source and target languages must be the same.")
    now = world.clock.now()
    engine = Engine(
        id=world.ids.new(),
        owner=owner,
        type=new.type,
        source_language=new.source_language,
        target_language=new.target_language,
        name=new.name,
        is_model_persisted=new.is_model_persisted,
        date_created=stored(now),
    )
    world.commit(engines=[engine])
    return engine, now


def change_languages(world: World, engine: Engine, source: str | None, target: str | None) -> None:
    """New tags; the model and its revision stay, a running nmt build is cancelled."""
    source, target = source or None, target or None
    if source is None and target is None:
        raise Invalid(sourceLanguage="The sourceLanguage or targetLanguage field is required.")
    if engine.type is EngineType.ECHO and (source is None or source != target):
        raise RuleBroken("Source and target languages must be the same.")
    with world.lock:
        if engine.type is EngineType.NMT:
            cancel_build(world, engine)
        changed = replace(
            engine,
            source_language=source or engine.source_language,
            target_language=target or engine.target_language,
        )
        world.commit(engines=[changed])


def delete_engine(world: World, engine: Engine) -> None:
    """Raises NotFound, and keeps the engine, for nmt with a pending build (Serval deletes the build first)."""
    with world.lock:
        current = world.current_build(engine.id)
        if engine.type is EngineType.NMT and current is not None and current.state is JobState.PENDING:
            raise NotFound("the build to cancel")
        world.remove_engine(engine)


def builds_of_owner(world: World, owner: str, created_after: Ticks | None) -> list[Build]:
    """Over all engines, in no order; with a date, builds without one are left out."""
    with world.lock:
        builds = [build for build in world.builds.values() if build.owner == owner]
    if created_after is not None:
        builds = [b for b in builds if b.date_created is not None and b.date_created > created_after]
    return shuffled(world, builds)


def builds_of_engine(world: World, engine: Engine) -> list[Build]:
    return shuffled(world, world.builds_of(engine.id))


def build_of_engine(world: World, engine: Engine, build_id: str) -> Build:
    """An ordinary read: NotFound for anything that is not a build of this engine."""
    build = world.builds.get(build_id) if is_object_id(build_id) else None
    if build is None or build.engine_id != engine.id:
        raise NotFound(build_id)
    return build


def start_build(world: World, engine: Engine, request: Request, *, dated: bool = True) -> tuple[Build, Ticks]:
    """The stored build, and its creation time before the database cut it.

    Raises Conflict while another is running or still being cancelled. `dated` False makes a record as Serval wrote
    them before it kept creation times.
    """
    now = world.clock.now()
    with world.lock:
        if world.current_build(engine.id) is not None:
            raise Conflict("a build is running")
        build = Build(
            id=world.ids.new(),
            engine_id=engine.id,
            owner=engine.owner,
            languages=resolved(engine),
            request=request,
            queue_depth=1 + queue_size(world, engine.type),
            date_created=stored(now) if dated else None,
        )
        world.commit(builds=[build])
    return build, now


def cancel_build(world: World, engine: Engine) -> Build | None:
    """The build after the request to cancel, or None if none runs."""
    with world.lock:
        current = world.current_build(engine.id)
        if current is None:
            return None
        asked = cancel_asked(current, world.clock.now())
        world.commit(builds=[asked])
    return asked


def queue_size(world: World, kind: EngineType) -> int:
    """Builds of that engine type that wait, over all owners."""
    with world.lock:
        waiting = [build for build in world.builds.values() if build.state is JobState.PENDING]
        return sum(world.engines[build.engine_id].type is kind for build in waiting)


def resolved(engine: Engine) -> Languages:
    """The engine's tags, with the codes that an nmt build trains on."""
    tags = Languages(engine.source_language, engine.target_language)
    if engine.type is not EngineType.NMT:
        return tags
    try:
        source, target = languages.resolve(engine.source_language), languages.resolve(engine.target_language)
    except languages.InvalidTag:
        return tags
    return replace(tags, source_code=source.code, target_code=target.code)


def shuffled(world: World, items: Sequence[T]) -> list[T]:
    """The items in an order that changes with each call: Serval promises none."""
    return world.random.sample(items, len(items))
