"""What the sweeps know of all sources, for whoever looks at an engine; and the clients that need a source's Secrets.

Secrets are read for each use. A client lives as long as what it was made of stays the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.credentials import serval_auth, serval_values
from engine_operator.cluster.events import EventRecorder
from engine_operator.cluster.identity import ClusterIdentity
from engine_operator.context import SourceContext, StoreBook, StoreState
from engine_operator.domain import reasons
from engine_operator.domain.effective import Defaults
from engine_operator.domain.engine import EngineSpec, ObjectStore, SourceRef, SourceSpec
from engine_operator.domain.keys import installation_name
from engine_operator.domain.serval_facts import Verdict
from engine_operator.errors import ClusterError, ServalUnreachable
from engine_operator.executor import Executor
from engine_operator.loops.inbox import SourceKey
from engine_operator.observe import Surroundings
from engine_operator.serval.client import ServalClient, Timeouts
from engine_operator.store.artifacts import ArtifactStore
from engine_operator.store.owner import Owner


class ServalClients:
    """One client per source, made anew when its Secret or its address changes."""

    def __init__(self, cluster: ClusterClient, timeouts: Timeouts) -> None:
        self._cluster = cluster
        self._timeouts = timeouts
        self._clients: dict[SourceKey, tuple[object, ServalClient]] = {}

    async def client(self, source: SourceSpec) -> ServalClient:
        """A client with the credentials as they are now. Raises ServalRefusedCredentials, ClusterError."""
        values = await serval_values(self._cluster, source)
        made_of = (source.url, source.token_url, source.audience, tuple(sorted(values.items())))
        key = SourceKey(source.namespace, source.name)
        known = self._clients.get(key)
        if known is not None and known[0] == made_of:
            return known[1]
        client = ServalClient(source.url, serval_auth(source, values), self._timeouts)
        self._clients[key] = (made_of, client)
        if known is not None:
            await known[1].aclose()
        return client

    async def forget(self, key: SourceKey) -> None:
        """Close the client of a source that is no more."""
        known = self._clients.pop(key, None)
        if known is not None:
            await known[1].aclose()

    async def aclose(self) -> None:
        """Close all."""
        for key in list(self._clients):
            await self.forget(key)


def _no_source(key: SourceKey) -> StoreState:
    """What an engine of a source that does not exist shares with others: nothing, and the reason."""
    told = f"there is no ServalSource {key.name!r} in namespace {key.namespace}"
    return StoreState(ObjectStore(""), "", None, Verdict(reasons.SOURCE_UNKNOWN, told))


@dataclass(frozen=True)
class _Resolver:
    """What actions of one engine need; see `executor.Resolver`."""

    sources: "Sources"
    engine: EngineSpec
    context: SourceContext | None

    async def serval(self) -> ServalClient:
        if self.context is None:
            raise ServalUnreachable(f"{self.engine.name} belongs to no ServalSource that is known")
        return await self.sources.clients.client(self.context.source)

    async def store(self) -> ArtifactStore:
        place, installation = await self.sources.place(self.engine, self.context)
        return await self.sources.stores.open(self.engine.namespace, place, installation)


@dataclass(frozen=True)
class _SourceResolver:
    """What actions of a whole source need."""

    sources: "Sources"
    source: SourceSpec

    async def serval(self) -> ServalClient:
        return await self.sources.clients.client(self.source)

    async def store(self) -> ArtifactStore:
        source = self.source
        installation = source.installation or await self.sources.installation(source.namespace, source.name)
        return await self.sources.stores.open(source.namespace, source.artifact_store, installation)


@dataclass(frozen=True)
class _ModelResolver:
    """What actions on the folder of persons' models need."""

    sources: "Sources"
    namespace: str
    kept: ObjectStore

    async def serval(self) -> ServalClient:
        raise ServalUnreachable("persons' models belong to no ServalSource")

    async def store(self) -> ArtifactStore:
        installation = await self.sources.installation(self.namespace, None)
        return await self.sources.stores.open(self.namespace, self.kept, installation)


@dataclass(frozen=True)
class Tools:
    """What one process shares."""

    cluster: ClusterClient
    events: EventRecorder
    defaults: Defaults
    identity: ClusterIdentity
    """Names this cluster where a folder has no other name."""


class Sources:
    """The contexts of all sources; the `Neighbourhood` of every look."""

    def __init__(
        self,
        tools: Tools,
        stores: StoreBook,
        clients: ServalClients,
        trust: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tools = tools
        self.stores = stores
        self.clients = clients
        self._trust = trust
        self._clock = clock
        self._contexts: dict[SourceKey, SourceContext] = {}
        self._existing: frozenset[SourceKey] | None = None
        self._models: dict[tuple[str, ObjectStore], tuple[float, StoreState]] = {}

    def put(self, key: SourceKey, context: SourceContext) -> None:
        """What a sweep learned."""
        self._contexts[key] = context

    def drop(self, key: SourceKey) -> None:
        """The source is no more."""
        self._contexts.pop(key, None)

    def exist(self, keys: frozenset[SourceKey]) -> None:
        """All sources that there are, swept or not."""
        self._existing = keys

    def context(self, key: SourceKey) -> SourceContext | None:
        """What the last sweep of a source learned; None before the first."""
        return self._contexts.get(key)

    def swept(self, namespace: str) -> bool:
        """Whether a source of this namespace was swept, or it has none."""
        if self._existing is None:
            return False
        here = [key for key in self._existing if key.namespace == namespace]
        return not here or any(key in self._contexts for key in here)

    def known_around(self, engine: EngineSpec) -> Surroundings | None:
        """The same, as far as it is known without asking anybody."""
        if isinstance(engine.origin, SourceRef):
            key = SourceKey(engine.namespace, engine.origin.serval_source)
            context = self.context(key)
            if context is not None:
                return Surroundings(context.storage, context, self.tools.defaults)
            missing = self._existing is not None and key not in self._existing
            return Surroundings(_no_source(key), None, self.tools.defaults) if missing else None
        known = self._models.get((engine.namespace, engine.origin.artifact_store))
        return Surroundings(known[1], None, self.tools.defaults) if known else None

    async def around(self, engine: EngineSpec) -> Surroundings | None:
        """What an engine shares with others; None before the first sweep of its source."""
        if isinstance(engine.origin, SourceRef):
            return self.known_around(engine)
        storage = await self._model_storage(engine.namespace, engine.origin.artifact_store)
        return Surroundings(storage, None, self.tools.defaults)

    def executor(self, engine: EngineSpec) -> Executor:
        """What carries out an engine's actions."""
        context = None
        if isinstance(engine.origin, SourceRef):
            context = self.context(SourceKey(engine.namespace, engine.origin.serval_source))
        return Executor(self.tools.cluster, self.tools.events, _Resolver(self, engine, context))

    def source_executor(self, source: SourceSpec) -> Executor:
        """What carries out actions that belong to a source rather than to one of its engines."""
        return Executor(self.tools.cluster, self.tools.events, _SourceResolver(self, source))

    def model_stores(self, namespace: str) -> list[tuple[ObjectStore, StoreState]]:
        """Stores of persons' models, as they were when a model of this process's time was last looked at."""
        return [(place, state) for (where, place), (_, state) in self._models.items() if where == namespace]

    def model_executor(self, namespace: str, place: ObjectStore) -> Executor:
        """What carries out actions on the folder of persons' models in one store."""
        return Executor(self.tools.cluster, self.tools.events, _ModelResolver(self, namespace, place))

    async def place(self, engine: EngineSpec, context: SourceContext | None) -> tuple[ObjectStore, str]:
        """Where an engine's artifacts are: store and installation. Raises ClusterError."""
        if context is not None:
            return context.storage.place, context.storage.installation
        if isinstance(engine.origin, SourceRef):
            raise ServalUnreachable(f"{engine.name} belongs to no ServalSource that is known")
        return engine.origin.artifact_store, await self.installation(engine.namespace, None)

    async def installation(self, namespace: str, source: str | None) -> str:
        """Default name of an installation's folder. Raises ClusterError."""
        return installation_name(await self.tools.identity.uid(), namespace, source)

    async def storage(self, source: SourceSpec) -> StoreState:
        """The state of a source's store."""
        return await self._state(source.namespace, source.name, source.artifact_store, source.installation)

    async def _model_storage(self, namespace: str, place: ObjectStore) -> StoreState:
        known = self._models.get((namespace, place))
        if known is not None and known[1].problem is None and self._clock() - known[0] < self._trust:
            return known[1]
        state = await self._state(namespace, None, place, None)
        self._models[namespace, place] = (self._clock(), state)
        return state

    async def _state(
        self, namespace: str, source: str | None, place: ObjectStore, installation: str | None
    ) -> StoreState:
        """A store whose folder can't be named is as good as one that can't be reached: a problem of its own."""
        try:
            name = installation or await self.installation(namespace, source)
            owner = Owner(await self.tools.identity.mark(), namespace, source or "")
        except ClusterError as error:
            return StoreState(place, installation or "", None, Verdict(error.reason, str(error)))
        return await self.stores.state(place, name, owner)
