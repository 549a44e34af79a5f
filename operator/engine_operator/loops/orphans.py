"""Artifacts of engines that no longer have a TranslationEngine: looked for by listing, since nothing has a finalizer.

Refuses to look in a folder that is not marked as this source's alone, and while Serval does not answer.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.crs import engine_spec
from engine_operator.cluster.facts import named_key
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, JOBS, PODS, REVISIONS
from engine_operator.context import SourceContext, StoreState
from engine_operator.domain import wire
from engine_operator.domain.collect import collect_orphans
from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.errors import StoreError, UsageError
from engine_operator.executor import Executor
from engine_operator.loops.sources import Sources

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Models:
    """Persons' models of a namespace, as last seen."""

    alive: frozenset[EngineId]
    next: float
    """Clock reading of the next search that nothing else asks for."""
    left: bool = False
    """The last search found something that is not old enough, or still named."""


class Orphans:
    """Collects for one process."""

    def __init__(
        self,
        cluster: ClusterClient,
        sources: Sources,
        grace: timedelta,
        every: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`every`: seconds between two searches for what persons' models left, besides those after a deletion."""
        self._cluster = cluster
        self._sources = sources
        self._grace = grace
        self._every = every
        self._clock = clock
        self._models: dict[str, _Models] = {}

    async def collect(self, context: SourceContext) -> bool:
        """Collect what is old enough and named by nothing; True if orphans are left for later. Raises ClusterError."""
        if context.problem is not None:
            return False
        executor = self._sources.source_executor(context.source)
        return await self._collect(context.source.namespace, context.storage, executor)

    async def collect_models(self, namespace: str, alive: Collection[EngineId]) -> None:
        """The same for persons' models: at intervals, and after a deletion until everything is gone.

        Looked for in the stores that models of this process's time named. A model that is deleted while no operator
        runs, and whose store no other model names, keeps its artifacts.
        """
        seen = self._models.setdefault(namespace, _Models(frozenset(alive), self._clock()))
        due = seen.left or seen.alive - set(alive) or self._clock() >= seen.next
        if not due:
            self._models[namespace] = replace(seen, alive=frozenset(alive))
            return
        left = False
        for place, storage in self._sources.model_stores(namespace):
            left |= await self._collect(namespace, storage, self._sources.model_executor(namespace, place))
        self._models[namespace] = _Models(frozenset(alive), self._clock() + self._every, left)

    async def _collect(self, namespace: str, storage: StoreState, executor: Executor) -> bool:
        """One folder; True if orphans are left for later."""
        store = storage.store
        if store is None or not storage.alone:
            return False
        try:
            alive = await self._engines(namespace)
            orphans = [engine for engine in await store.engines() if engine not in alive]
            if not orphans:
                return False
            stored = [artifact for engine in orphans for artifact in await store.stored(engine)]
        except StoreError as error:
            log.warning("orphaned artifacts could not be listed: %s", error)
            return False
        actions = collect_orphans(stored, alive, await self._named(namespace), datetime.now(UTC), self._grace)
        outcome = await executor.run(actions)
        if outcome.error is not None:
            log.warning("orphaned artifacts could not be collected: %s", outcome.error)
        elif actions:
            log.info("collected the artifacts of %d engines that are gone", len(actions))
        return sum(len(action.folders) for action in actions) < len(stored) or outcome.error is not None

    async def _engines(self, namespace: str) -> frozenset[EngineId]:
        """Ids of all engines that have a TranslationEngine, of whatever source. One that can't be read stops us."""
        found: set[EngineId] = set()
        async for item in self._cluster.list(ENGINES, namespace):
            try:
                found.add(engine_spec(item).engine_id)
            except UsageError as error:
                raise StoreError(
                    f"not collecting: {item['metadata']['name']} can't be read: {error}"
                ) from error
        return frozenset(found)

    async def _named(self, namespace: str) -> frozenset[ArtifactKey]:
        """Keys that anything in the namespace may still load or write."""
        found: set[ArtifactKey] = set()
        for resource in (JOBS, INFERENCE_SERVICES, REVISIONS, PODS):
            async for item in self._cluster.list(resource, namespace, wire.LABEL_ENGINE):
                key = named_key(item)
                if key is not None:
                    found.add(key)
        return frozenset(found)
