"""The hand that plays Serval: add owners and engines, run builds, put models, move the clock, make trouble.

Used from Python by tests, and by the control paths over HTTP (see `verbs`). Every method may be called from any thread;
those that touch the bucket block.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.support.serval import operations
from tests.support.serval.access import ALL_SCOPES, KEY_SCOPES, Client
from tests.support.serval.archives import Archive, ModelArchives
from tests.support.serval.backend import Backend, Entry
from tests.support.serval.clock import Clock, stored
from tests.support.serval.domain import (
    Build,
    Ending,
    Engine,
    EngineType,
    JobState,
    Request,
    activated,
    finished,
    progressed,
    released,
    restarted,
)
from tests.support.serval.errors import NotFound
from tests.support.serval.faults import Answer, Fault, Kind, Match

OWNER = "ruth"
"""The owner of everything that names none."""
COMPLETED = Ending()
ANY = Match()


@dataclass(frozen=True)
class EngineSpec:
    """An engine to add. `revision` above 0 means that many builds in the past, without their records."""

    owner: str = OWNER
    source: str = "en"
    target: str = "es"
    type: EngineType = EngineType.NMT
    persisted: bool | None = True
    revision: int = 0
    name: str | None = None
    id: str | None = None


class Control:
    """Everything that a test or a demo does to the stand-in beside calling its API."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._held: dict[str, tuple[Build, Engine]] = {}

    # Callers

    def add_key(self, owner: str = OWNER, scopes: Iterable[str] | None = None) -> str:
        """A new API key of an owner, with every scope that keys can have unless told otherwise."""
        wanted = ALL_SCOPES - KEY_SCOPES if scopes is None else scopes
        return self.backend.access.add_key(owner, wanted)[1]

    def add_client(self, owner: str = OWNER, scopes: Iterable[str] | None = None) -> Client:
        """A client id and secret for `/oauth/token`."""
        return self.backend.access.add_client(owner, ALL_SCOPES if scopes is None else scopes)

    def token(
        self, owner: str = OWNER, scopes: Iterable[str] | None = None, lifetime: float | None = None
    ) -> str:
        """A bearer token of an owner without asking the token end point."""
        return self.backend.access.token(owner, ALL_SCOPES if scopes is None else scopes, lifetime)

    def reject_tokens(self) -> None:
        """All tokens issued so far are worth nothing from now on."""
        self.backend.access.reject_tokens()

    # Engines and builds

    def add_engine(self, spec: EngineSpec | None = None) -> Engine:
        """A new engine, as if its owner had made it."""
        spec = spec or EngineSpec()
        world = self.backend.world
        engine = Engine(
            id=spec.id or world.ids.new(),
            owner=spec.owner,
            type=spec.type,
            source_language=spec.source,
            target_language=spec.target,
            name=spec.name,
            is_model_persisted=spec.persisted,
            model_revision=spec.revision,
            machine_revision=spec.revision,
            date_created=stored(world.clock.now()),
        )
        world.commit(engines=[engine])
        return engine

    def change_engine(self, engine_id: str, **changes: Any) -> Engine:
        """Overwrite fields of the record, for states that Serval reaches only by accident."""
        world = self.backend.world
        with world.lock:
            engine = replace(self.engine(engine_id), **changes)
            world.commit(engines=[engine])
        return engine

    def delete_engine(self, engine_id: str) -> None:
        """Gone with its builds, without any event; a pending build is no obstacle here."""
        self.backend.world.remove_engine(self.engine(engine_id))

    def engine(self, engine_id: str) -> Engine:
        """The record as it is now. Raises NotFound."""
        engine = self.backend.world.engines.get(engine_id)
        if engine is None:
            raise NotFound(f"no engine {engine_id}")
        return engine

    def start_build(self, engine_id: str, request: Request | None = None, *, dated: bool = True) -> Build:
        """A pending build; `dated` False leaves dateCreated out, as on old records. Raises Conflict."""
        engine = self.engine(engine_id)
        return operations.start_build(self.backend.world, engine, request or Request(), dated=dated)[0]

    def activate_build(self, engine_id: str) -> Build:
        """Its training task runs."""
        return self._move(engine_id, lambda build: activated(build, self.clock.now()))

    def progress_build(self, engine_id: str, progress: float) -> Build:
        """A progress write, 0 to 1."""
        return self._move(engine_id, lambda build: progressed(build, progress, round(5000 * progress)))

    def restart_build(self, engine_id: str) -> Build:
        """Serval restarted: back to Pending."""
        return self._move(engine_id, restarted)

    def finish_build(
        self, engine_id: str, archive: Archive | None = None, ending: Ending = COMPLETED
    ) -> Build:
        """The running build ends. An archive is stored before, as revision R+1, whatever the ending.

        Completed without an archive is Serval's case of a failed upload; any other ending with one leaves the file of
        a revision that was never released.
        """
        self.put_archive(engine_id, archive)
        world = self.backend.world
        with world.lock:
            build, engine = self._ended(engine_id, ending)
            world.commit(builds=[build], engines=[engine])
        return build

    def run_build(self, engine_id: str, archive: Archive | None = None, ending: Ending = COMPLETED) -> Build:
        """A whole build: started, active, finished."""
        self.start_build(engine_id)
        self.activate_build(engine_id)
        return self.finish_build(engine_id, archive, ending)

    # Losses

    def finish_together(self, archives: Mapping[str, Archive | None]) -> list[Build]:
        """The running builds of these engines end in one batch of the change stream: a poll sees only the last."""
        for engine_id, archive in archives.items():
            self.put_archive(engine_id, archive)
        world = self.backend.world
        with world.lock:
            pairs = [self._ended(engine_id, COMPLETED) for engine_id in archives]
            world.commit(builds=[build for build, _ in pairs], engines=[engine for _, engine in pairs])
        return [build for build, _ in pairs]

    def finish_uncommitted(self, engine_id: str, archive: Archive | None = None) -> Build:
        """The finishing transaction begins (its date is now) and stays open until `commit_build`."""
        self.put_archive(engine_id, archive)
        with self.backend.world.lock:
            pair = self._ended(engine_id, COMPLETED)
            self._held[pair[0].id] = pair
        return pair[0]

    def commit_build(self, build_id: str) -> Build:
        """End the transaction of `finish_uncommitted`. Raises NotFound."""
        if build_id not in self._held:
            raise NotFound(f"no open transaction for build {build_id}")
        build, engine = self._held.pop(build_id)
        self.backend.world.commit(builds=[build], engines=[engine])
        return build

    def in_gap(self, action: Callable[[], object]) -> None:
        """Do this once, between the end of the next long poll and the caller's next request."""
        self.backend.faults.in_gap(action)

    # Models

    @property
    def archives(self) -> ModelArchives:
        """The bucket. Raises ValueError for a stand-in without one."""
        if self.backend.archives is None:
            raise ValueError("this stand-in has no bucket")
        return self.backend.archives

    def put_archive(self, engine_id: str, archive: Archive | None) -> None:
        """Upload the archive as the engine's next revision, as the training job does before a build ends."""
        if archive is None:
            return
        engine = self.engine(engine_id)
        if engine.type is not EngineType.NMT or not engine.is_model_persisted:
            raise ValueError(f"engine {engine_id} keeps no models")
        self.archives.upload(engine_id, engine.machine_revision + 1, archive)

    def clean_up(self) -> list[str]:
        """Serval's daily cleanup, now; returns the keys that went."""
        return self.archives.clean_up(list(self.backend.world.engines.values()))

    # Trouble

    def break_with(self, answer: int | Answer, match: Match = ANY, after: float = 0.0) -> Fault:
        """Answer matching requests with this status until told otherwise by `match` or `mend`."""
        answer = Answer(answer) if isinstance(answer, int) else answer
        return self.backend.faults.add(Fault(Kind.ANSWER, match, after, answer))

    def reset_connections(self, match: Match = ANY, after: float = 0.0) -> Fault:
        """Cut the connection of matching requests, at once or after some seconds."""
        return self.backend.faults.add(Fault(Kind.RESET, match, after))

    def delay(self, seconds: float, match: Match = ANY) -> Fault:
        """Matching requests wait before they are looked at."""
        return self.backend.faults.add(Fault(Kind.PASS, match, seconds))

    def shorten_lists(self, keep: int, times: int = 1) -> None:
        """The next engine lists hold only so many engines, with 200."""
        self.backend.faults.shorten_lists(keep, times)

    def mend(self, fault: Fault | None = None) -> None:
        """End one fault, or all."""
        if fault is None:
            self.backend.faults.clear()
        else:
            self.backend.faults.remove(fault)

    # Sight

    @property
    def clock(self) -> Clock:
        return self.backend.world.clock

    @property
    def open_polls(self) -> int:
        """Requests that wait for a change right now."""
        return self.backend.world.followers

    def requests(self, path: str = "") -> list[Entry]:
        """The API requests that have ended, oldest first, whose path holds this text."""
        return [entry for entry in self.backend.journal.entries() if path in entry.path]

    def configure(self, **changes: Any) -> None:
        """Change settings while running, such as `long_poll_timeout`."""
        self.backend.settings = replace(self.backend.settings, **changes)
        self.backend.world.settings = self.backend.settings

    def _move(self, engine_id: str, move: Callable[[Build], Build]) -> Build:
        world = self.backend.world
        with world.lock:
            moved = move(self._current(engine_id))
            world.commit(builds=[moved])
        return moved

    def _ended(self, engine_id: str, ending: Ending) -> tuple[Build, Engine]:
        engine = self.engine(engine_id)
        build = finished(self._current(engine_id), ending, self.clock.now())
        return build, released(engine, ending) if ending.state is JobState.COMPLETED else engine

    def _current(self, engine_id: str) -> Build:
        build = self.backend.world.current_build(engine_id)
        if build is None:
            raise NotFound(f"engine {engine_id} has no running build")
        return build
