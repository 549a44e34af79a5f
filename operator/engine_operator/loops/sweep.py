"""The sweep of one source: compares Serval's list with what is here, and finds everything, with or without events.

One sweep = read the source, its store and its Secret; list Serval's engines; decide which TranslationEngines come and
go; hand every engine whose facts are new to the engine loop; write the source's status if something but a time changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from engine_operator import metrics
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.crs import engine_spec, source_spec
from engine_operator.cluster.reader import ClusterReader, Survey
from engine_operator.cluster.resources import SERVAL_SOURCES, Json
from engine_operator.cluster.source_status import (
    SHOWN_SKIPPED,
    SourceStatus,
    counted,
    read_source_status,
    substance,
    write_source_status,
)
from engine_operator.context import SourceContext, StoreState
from engine_operator.domain.actions import ApplyEngine, DeleteEngine
from engine_operator.domain.deletion import Lookup, suspects
from engine_operator.domain.discovery import SourcePlan, SourceView, newcomers, plan_source
from engine_operator.domain.engine import EngineSpec, SourceRef, SourceSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.observed import KnativeSettings
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import ServalEngine, Verdict
from engine_operator.domain.source_conditions import SourceFacts, source_conditions
from engine_operator.errors import (
    ClusterError,
    LeaseLost,
    NotFound,
    ServalError,
    ServalForbids,
    ServalLacks,
    UsageError,
)
from engine_operator.loops.announce import skipped_notes, unfinished_notes
from engine_operator.loops.inbox import SourceKey
from engine_operator.loops.keeper import LastUsed, is_awake, keep, nobody_knows
from engine_operator.loops.missed import ANNOUNCED_WITHIN, Missed, revisions_before
from engine_operator.loops.poll import Poller
from engine_operator.loops.sources import Sources
from engine_operator.serval.client import ServalClient
from engine_operator.serval.facts import facts_of

log = logging.getLogger(__name__)

MOST_LOOKUPS = 200
"""Engines asked for one by one in a sweep; the others stay as unclear as they were."""

_LOOKUPS_AT_ONCE = 8


@dataclass(frozen=True)
class SweepParts:
    """What a sweep works with."""

    cluster: ClusterClient
    reader: ClusterReader
    sources: Sources
    policy: Policy
    knative: Callable[[], KnativeSettings]
    status_every: float
    owned_elsewhere: Callable[[SourceKey], frozenset[EngineId]]
    """Engines that an older source of the same Serval serves."""
    offer: Callable[[str, Survey, list[EngineSpec]], None]
    """Hand engines of a namespace to the engine loop, with what the survey saw of them."""
    announced_within: float = ANNOUNCED_WITHIN
    last_used: LastUsed = nobody_knows
    """Asks a pod when it was last called."""


@dataclass(frozen=True)
class Found:
    """What one sweep found, for whoever needs it next."""

    view: SourceView
    planned: SourcePlan
    storage: StoreState
    problem: Verdict | None
    knative: KnativeSettings
    kept: frozenset[str] = frozenset()

    def context(self) -> SourceContext:
        """What the engines of this source share until the next sweep."""
        return SourceContext(
            source=self.view.source,
            storage=self.storage,
            engines={one.id: one for one in self.view.listed or ()},
            existence=self.planned.existence,
            problem=self.problem,
            knative=self.knative,
            kept=self.kept,
        )

    def status(self, old: SourceStatus, now: datetime) -> SourceStatus:
        """The source's status; what no list told is kept from the last one that did."""
        listed = self.view.listed
        facts = SourceFacts(
            generation=self.view.source.generation,
            serval=self.problem,
            storage=self.storage.problem,
            store_uri=self.storage.place.uri,
            deletion=self.planned.deletion,
        )
        new = replace(
            old,
            observed_generation=self.view.source.generation,
            conditions=source_conditions(facts, old.conditions, now),
            ledger=self.planned.deletion.ledger,
            installation=self.storage.installation,
            knative=self.knative,
        )
        if listed is None:
            return new
        return replace(
            new,
            last_sweep=now,
            seen=len(listed),
            servable=self.planned.servable,
            skipped=self.planned.skipped[:SHOWN_SKIPPED],
            skipped_counts=counted(self.planned.skipped),
        )


class Sweeper:
    """Sweeps one source."""

    def __init__(self, key: SourceKey, parts: SweepParts, poller: Poller) -> None:
        self._key = key
        self._parts = parts
        self._poller = poller
        self._written_at = time.monotonic()
        self._missed = Missed(parts.announced_within)
        self._started = False
        self.deleted = False
        """Whether the last sweep deleted an engine, so that its artifacts are to be collected soon."""

    async def sweep(self) -> bool:
        """One sweep; False if there is no such source any more. Raises OperatorError."""
        began = time.monotonic()
        item = await self._parts.cluster.find(ObjectRef(SERVAL_SOURCES, self._key.namespace, self._key.name))
        if item is None:
            return False
        source, status = source_spec(item), read_source_status(item.get("status") or {})
        # The first one also plans for every engine, which would read each one anew otherwise.
        survey = await self._parts.reader.survey(source.namespace, revisions=not self._started)
        if not self._started:
            self._poller.start_from(status.cursor)
            self._started = True
        found = await self.find(source, status, survey)
        self._remember(found, survey, polled=status.cursor is not None)
        self._parts.sources.put(self._key, found.context())
        # No await in between: whoever is looked at from now on counts among what the others have.
        self._parts.offer(source.namespace, survey, list(found.view.engines))
        await self._carry_out(source, found.planned)
        new = replace(
            found.status(status, datetime.now(UTC)),
            serving=sum(_serves(survey.engines[engine.name].engine) for engine in found.view.engines),
            cursor=self._poller.cursor,
            last_event=self._poller.last_event or status.last_event,
        )
        await self._write(item, status, new)
        await self._announce(source, status, new)
        self._count(found.view.listed, new, time.monotonic() - began)
        awake = sum(is_awake(survey.engines[engine.name]) for engine in found.view.engines)
        metrics.ENGINES.labels(*self._labels, "awake").set(awake)
        return True

    async def find(self, source: SourceSpec, status: SourceStatus, survey: Survey) -> Found:
        """Gather and decide, without changing anything."""
        storage = await self._parts.sources.storage(source)
        listed, problem = await self._listed(source)
        mine = engines_of(source.name, survey)
        view = SourceView(
            source=source,
            listed=listed,
            engines=tuple(mine),
            owned_elsewhere=self._parts.owned_elsewhere(self._key),
            ledger=status.ledger,
        )
        view = replace(view, lookups=await self._lookups(view))
        now = datetime.now(UTC)
        planned = plan_source(view, now, self._parts.policy)
        kept = await keep(source, mine, survey, self._parts.last_used, now)
        return Found(view, planned, storage, problem, self._parts.knative(), kept)

    async def _listed(self, source: SourceSpec) -> tuple[tuple[ServalEngine, ...] | None, Verdict | None]:
        """A complete list, or why there is none."""
        try:
            client = await self._parts.sources.clients.client(source)
            return tuple(facts_of(one) for one in await client.engines()), None
        except (ServalError, ClusterError) as error:
            return None, Verdict(error.reason, str(error))

    async def _lookups(self, view: SourceView) -> dict[EngineId, Lookup]:
        """Ask one by one for engines that the list lacks, and for those that would be made because of it."""
        source, listed = view.source, view.listed
        known = [engine.engine_id for engine in view.engines]
        absent = suspects(known, None if listed is None else [one.id for one in listed])
        asked = (*absent[:MOST_LOOKUPS], *newcomers(view))
        if not asked:
            return {}
        try:
            client = await self._parts.sources.clients.client(source)
        except (ServalError, ClusterError):
            return {}
        places = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

        async def look_up(engine: EngineId) -> Lookup:
            async with places:
                return await lookup(client, engine)

        answers = await asyncio.gather(*(look_up(engine) for engine in asked))
        return dict(zip(asked, answers, strict=True))

    async def _carry_out(self, source: SourceSpec, planned: SourcePlan) -> None:
        """Each action for itself: one name that the API refuses must not keep the others from being made."""
        executor = self._parts.sources.source_executor(source)
        self.deleted = any(isinstance(action, DeleteEngine) for action in planned.actions)
        for action in planned.actions:
            outcome = await executor.run([action])
            if isinstance(outcome.error, LeaseLost):
                raise outcome.error
            if outcome.error is not None:
                log.warning("%s/%s: %s failed: %s", *self._labels, type(action).__name__, outcome.error)

    async def _announce(self, source: SourceSpec, old: SourceStatus, new: SourceStatus) -> None:
        """Events rest on nothing and nothing rests on them: a failure is told, and the sweep is done."""
        notes = (
            *skipped_notes(source, old.skipped, new.skipped),
            *unfinished_notes(source, self._poller.not_completed()),
        )
        for note in notes:
            try:
                await self._parts.sources.tools.events.tell(note)
            except LeaseLost:
                raise
            except ClusterError as error:
                log.warning("%s/%s: an Event could not be written: %s", *self._labels, error)

    async def _write(self, item: Json, old: SourceStatus, new: SourceStatus) -> None:
        """Only another substance is worth a write; or an hour, so that people see that we live."""
        due = time.monotonic() - self._written_at >= self._parts.status_every
        if substance(new) == substance(old) and not due:
            return
        metadata = {field: item["metadata"][field] for field in ("name", "namespace", "uid")}
        body = {"metadata": metadata, "status": write_source_status(new)}
        try:
            await self._parts.cluster.apply(SERVAL_SOURCES, body, subresource="status")
        except NotFound:
            return  # Deleted meanwhile.
        self._written_at = time.monotonic()

    def _count(self, listed: tuple[ServalEngine, ...] | None, status: SourceStatus, seconds: float) -> None:
        metrics.SWEEPS.labels(*self._labels).observe(seconds)
        for state in ("seen", "servable", "serving"):
            metrics.ENGINES.labels(*self._labels, state).set(getattr(status, state))
        if listed is None:
            return
        announced = {EngineId(engine) for engine in self._poller.announced()}
        missed = self._missed.found({one.id: one.model_revision for one in listed}, announced)
        for engine, revision in missed.items():
            metrics.MISSED_EVENTS.labels(*self._labels).inc()
            log.info("%s/%s: revision %d of %s was not announced", *self._labels, revision, engine)

    def _remember(self, found: Found, survey: Survey, polled: bool) -> None:
        """After a start, once: what was known before it."""
        if self._missed.begun or found.view.listed is None:
            return
        made = [one.engine_id for one in found.planned.actions if isinstance(one, ApplyEngine)]
        self._missed.begin(revisions_before(found.view.listed, made, survey, polled))

    @property
    def _labels(self) -> tuple[str, str]:
        return self._key.namespace, self._key.name


async def lookup(client: ServalClient, engine: EngineId) -> Lookup:
    """What a GET on the engine itself says; only a 404 of Serval's own is a 404."""
    try:
        await client.engine(engine)
    except ServalLacks:
        return Lookup.NOT_FOUND
    except ServalForbids:
        return Lookup.FORBIDDEN
    except ServalError:
        return Lookup.UNCLEAR
    return Lookup.FOUND


def engines_of(source: str, survey: Survey) -> list[EngineSpec]:
    """TranslationEngines of one source, also those that a person made."""
    found: list[EngineSpec] = []
    for objects in survey.engines.values():
        try:
            spec = engine_spec(objects.engine)
        except UsageError as error:
            log.warning("a TranslationEngine can't be read: %s", error)
            continue
        if isinstance(spec.origin, SourceRef) and spec.origin.serval_source == source:
            found.append(spec)
    return found


def _serves(engine: Json) -> bool:
    return bool((engine.get("status") or {}).get("serving"))
