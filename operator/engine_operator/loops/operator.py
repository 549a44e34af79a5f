"""The whole work of a process that leads: one loop per source, one for engines, small ones for the rest.

Everything is put together here, and torn down here; whoever wants to know what runs reads `Work.run`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from engine_operator.cluster.builders.inferenceservice import REST_PORT
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.crs import engine_spec
from engine_operator.cluster.engine_status import read_engine_status
from engine_operator.cluster.events import EventRecorder
from engine_operator.cluster.facts import created, service_state
from engine_operator.cluster.identity import ClusterIdentity
from engine_operator.cluster.knative import knative_settings
from engine_operator.cluster.phases import PhaseReader
from engine_operator.cluster.reader import ClusterReader, Survey
from engine_operator.cluster.resources import ENGINES, LEASES, SERVAL_SOURCES, Json
from engine_operator.context import StoreBook
from engine_operator.domain.engine import EngineSpec, ModelSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.observed import KnativeSettings
from engine_operator.domain.policy import Policy
from engine_operator.domain.rollout import place_of
from engine_operator.domain.serval_facts import servable
from engine_operator.errors import ClusterError, LeaseLost, OperatorError, UsageError
from engine_operator.health import Pulse
from engine_operator.loops.board import Board
from engine_operator.loops.cost import PodSeconds
from engine_operator.loops.engines import EngineLoop, Rhythm
from engine_operator.loops.inbox import EngineKey, Inbox, Mark, SourceKey
from engine_operator.loops.keeper import standing_of, waits_for_room
from engine_operator.loops.look import Looker, fingerprint, source_of
from engine_operator.loops.missed import ANNOUNCED_WITHIN
from engine_operator.loops.orphans import Orphans
from engine_operator.loops.poll import Poller
from engine_operator.loops.source import SourceLoop, SweepRhythm
from engine_operator.loops.sources import ServalClients, Sources, Tools
from engine_operator.loops.sweep import Sweeper, SweepParts
from engine_operator.observe import ManifestBook, Observer, desired_of
from engine_operator.profiles import defaults
from engine_operator.serval.client import ServalClient, Timeouts
from engine_operator.settings import Settings

log = logging.getLogger(__name__)

DIRECTORY_EVERY = 60.0
"""Seconds between two lists of the sources, besides those that the watch asks for."""

AFTER_DEFECT = 30.0
"""Seconds until a loop that ended by a defect is started again."""


@dataclass
class _Running:
    """One source that is followed."""

    uid: str
    fingerprint: tuple[object, ...]
    created: str
    url: str
    loop: SourceLoop
    task: "asyncio.Task[None]" = field(repr=False)


class Work:
    """What a leader does. Made anew for each time that it leads."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: Settings,
        namespaces: tuple[str, ...],
        inbox: Inbox,
        pulse: Pulse,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._namespaces = namespaces
        self._inbox = inbox
        self._pulse = pulse
        self._policy: Policy = settings.policy()
        self._knative = KnativeSettings()
        self._reader = ClusterReader(cluster)
        self._board = Board()
        self._cost = PodSeconds()
        self._running: dict[SourceKey, _Running] = {}
        self._listed = asyncio.Event()
        """Set once it is known which sources there are."""

    async def run(self) -> None:
        """Until cancelled, or until the Lease is lost."""
        settings = self._settings
        image = settings.runtime_image_cpu
        tools = Tools(
            self._cluster,
            EventRecorder(self._cluster, settings.identity),
            defaults(image, settings.runtime_image_gpu or image, settings.converter_image),
            ClusterIdentity(self._cluster, ObjectRef(LEASES, self._namespaces[0], settings.lease_name)),
        )
        clients = ServalClients(self._cluster, Timeouts(long_poll=settings.long_poll_timeout))
        self._sources = Sources(
            tools,
            StoreBook(self._cluster, settings.patience(), grants=settings.identity_grants()),
            clients,
            settings.seconds(settings.sweep_every),
        )
        manifests = ManifestBook(settings.seconds(settings.manifest_trust))
        self._phases = PhaseReader(REST_PORT)
        observer = Observer(self._reader, manifests, self._phases)
        looker = self._looker = Looker(self._reader, observer, self._sources, self._board, self._policy)
        self._engines = EngineLoop(
            self._inbox, looker, self._board, engine_rhythm(settings), settings.parallel_engines
        )
        self._inbox.ignores = self._ignores
        every = settings.seconds(settings.collect_every)
        self._orphans = Orphans(self._cluster, self._sources, self._policy.deletion.grace, every)
        self._knative = await self._read_knative()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._engines.run(), name="engines")
                group.create_task(self._again("knative", self._follow_knative), name="knative")
                group.create_task(self._again("models", self._sweep_models), name="models")
                await self._follow_sources(group)
        finally:
            await clients.aclose()

    async def _follow_sources(self, group: asyncio.TaskGroup) -> None:
        try:
            while True:
                self._pulse.beat("sources")
                try:
                    await self._update_sources(group)
                except ClusterError as error:
                    log.warning("the ServalSources could not be listed: %s", error)
                await self._inbox.wait_sources(self._settings.seconds(DIRECTORY_EVERY, 2.0))
        finally:
            self._pulse.forget("sources")

    async def _update_sources(self, group: asyncio.TaskGroup) -> None:
        found: dict[SourceKey, Json] = {}
        for namespace in self._namespaces:
            async for item in self._cluster.list(SERVAL_SOURCES, namespace):
                found[SourceKey(namespace, str(item["metadata"]["name"]))] = item
        self._sources.exist(frozenset(found))
        for key in [key for key, running in self._running.items() if not _same(running, found.get(key))]:
            await self._stop(key)
        for key, item in sorted(found.items(), key=lambda entry: created(entry[1])):
            running = self._running.get(key)
            seen = _fingerprint(item)
            if running is None or running.task.done():
                self._start(key, item, group)
            elif running.fingerprint != seen:
                running.fingerprint = seen
                running.loop.wake(0.0)
        self._listed.set()

    def _start(self, key: SourceKey, item: Json, group: asyncio.TaskGroup) -> None:
        settings, sources = self._settings, self._sources
        loop = SourceLoop(key, sweep_rhythm(settings), self._pulse, sources, self._orphans)
        poller = Poller(
            key,
            lambda: self._connect(key),
            settings.poll_policy(),
            loop.wake,
            lambda engine, at: self._looker.lag.finished((key.namespace, engine), at),
        )
        parts = SweepParts(
            cluster=self._cluster,
            reader=self._reader,
            sources=sources,
            policy=self._policy,
            knative=lambda: self._knative,
            status_every=settings.seconds(settings.status_every),
            announced_within=settings.seconds(ANNOUNCED_WITHIN),
            last_used=self._phases.last_used,
            owned_elsewhere=self._owned_elsewhere,
            offer=self._offer,
        )
        sweeper = Sweeper(key, parts, poller)
        task = group.create_task(
            self._again(f"source {key.namespace}/{key.name}", lambda: loop.run(sweeper, poller)),
            name=f"source {key.name}",
        )
        metadata = item["metadata"]
        url = str(item["spec"]["url"]).rstrip("/")
        self._running[key] = _Running(
            metadata["uid"],
            _fingerprint(item),
            f"{created(item).isoformat()} {metadata['uid']}",
            url,
            loop,
            task,
        )

    async def _stop(self, key: SourceKey) -> None:
        running = self._running.pop(key)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        self._sources.drop(key)
        await self._sources.clients.forget(key)

    async def _connect(self, key: SourceKey) -> ServalClient:
        context = self._sources.context(key)
        assert context is not None, "the first sweep comes before the first poll"
        return await self._sources.clients.client(context.source)

    def _owned_elsewhere(self, key: SourceKey) -> frozenset[EngineId]:
        """Engines that an older source of the same server serves: they belong to it."""
        mine = self._running[key]
        owned: set[EngineId] = set()
        for other, running in self._running.items():
            context = self._sources.context(other)
            if other == key or running.url != mine.url or running.created > mine.created or context is None:
                continue
            selector = context.source.selector
            owned |= {one.id for one in context.engines.values() if servable(one, selector) is None}
            owned |= set(context.existence)
        return frozenset(owned)

    def _ignores(self, key: EngineKey, mark: Mark) -> bool:
        """Nothing can be said of an engine before its namespace's first sweep, which looks at every one."""
        return not self._sources.swept(key.namespace) or self._engines.saw(key, mark)

    def _offer(self, namespace: str, survey: Survey, engines: list[EngineSpec]) -> None:
        """Hand over engines whose facts are not those of their last look."""
        self._cost.count(namespace, survey)
        self._engines.forget(namespace, set(survey.engines))
        for engine in engines:
            key = EngineKey(namespace, engine.name)
            objects = survey.engines[engine.name]
            around = self._sources.known_around(engine)
            status = read_engine_status(objects.engine.get("status") or {})
            if status.target is not None and self._board.phase(key) is None:
                service = service_state(objects.service) if objects.service else None
                self._board.enters(key, place_of(status, service))
            if around is None:
                self._engines.schedule(key)
                continue
            desired = desired_of(engine, status, around)
            if not self._board.known(key):
                self._board.stands(key, source_of(engine), standing_of(engine, objects, desired.effective))
            settled = self._engines.settled_with(key)
            if settled != fingerprint(objects, desired, around) or waits_for_room(objects):
                if survey.complete:
                    self._engines.offer(key, objects)
                else:
                    self._engines.schedule(key)

    async def _sweep_models(self) -> None:
        """Persons' models, and engines whose source does not exist, have no source that sweeps them."""
        await self._listed.wait()
        while True:
            for namespace in self._namespaces:
                engines: list[EngineSpec] = []
                if [
                    one
                    async for one in self._cluster.list(ENGINES, namespace)
                    if not self._swept(namespace, one)
                ]:
                    survey = await self._reader.survey(namespace)
                    engines = self._without_sweep(survey)
                    self._offer(namespace, survey, engines)
                models = {engine.engine_id for engine in engines if isinstance(engine.origin, ModelSpec)}
                await self._orphans.collect_models(namespace, models)
            await asyncio.sleep(self._settings.seconds(self._settings.sweep_every))

    def _swept(self, namespace: str, engine: Json) -> bool:
        source = (engine["spec"].get("source") or {}).get("servalSource")
        return SourceKey(namespace, str(source)) in self._running

    def _without_sweep(self, survey: Survey) -> list[EngineSpec]:
        found: list[EngineSpec] = []
        for objects in survey.engines.values():
            try:
                spec = engine_spec(objects.engine)
            except UsageError as error:
                log.warning("a TranslationEngine can't be read: %s", error)
                continue
            if (
                isinstance(spec.origin, ModelSpec)
                or SourceKey(spec.namespace, spec.origin.serval_source) not in self._running
            ):
                found.append(spec)
        return found

    async def _follow_knative(self) -> None:
        while True:
            await asyncio.sleep(self._settings.seconds(self._settings.knative_every))
            self._knative = await self._read_knative()

    async def _read_knative(self) -> KnativeSettings:
        return await knative_settings(self._cluster, self._settings.knative_namespace, self._policy.mode)

    async def _again(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a loop again after a failure that it did not expect: a defect must not stop the other loops."""
        while True:
            try:
                await run()
                return
            except LeaseLost:
                raise
            except OperatorError as error:
                log.warning("%s: %s", name, error)
            except Exception:
                log.exception("%s ended by a defect and starts again", name)
            await asyncio.sleep(self._settings.seconds(AFTER_DEFECT, 1.0))


def engine_rhythm(settings: Settings) -> Rhythm:
    """Waits of the engine loop."""
    return Rhythm(
        debounce=settings.seconds(0.2, 0.05),
        follow=settings.seconds(settings.follow_every, 0.25),
        collect=settings.seconds(settings.collect_every),
        trust=settings.seconds(settings.manifest_trust),
        longest_retry=settings.seconds(20.0, 1.0),
        turn=settings.seconds(0.5, 0.05),
    )


def sweep_rhythm(settings: Settings) -> SweepRhythm:
    """Waits of the source loops."""
    return SweepRhythm(
        every=settings.seconds(settings.sweep_every),
        collect=settings.seconds(settings.collect_every),
        first_retry=settings.seconds(5.0, 0.5),
    )


def _fingerprint(item: Json) -> tuple[object, ...]:
    """What people change of a source; its status is ours."""
    metadata = item["metadata"]
    return metadata.get("generation"), tuple(sorted((metadata.get("annotations") or {}).items()))


def _same(running: _Running, item: Json | None) -> bool:
    return item is not None and str(item["metadata"]["uid"]) == running.uid
