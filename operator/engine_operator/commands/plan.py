"""`engine-operator plan`: what one sweep would do, and nothing of it done."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.connection import Connection
from engine_operator.cluster.crs import engine_spec, source_spec
from engine_operator.cluster.engine_status import read_engine_status
from engine_operator.cluster.events import EventRecorder
from engine_operator.cluster.facts import service_state
from engine_operator.cluster.identity import ClusterIdentity
from engine_operator.cluster.knative import knative_settings
from engine_operator.cluster.reader import ClusterReader, Survey
from engine_operator.cluster.resources import SERVAL_SOURCES, Json
from engine_operator.cluster.source_status import read_source_status
from engine_operator.context import StoreBook
from engine_operator.domain.actions import Action
from engine_operator.domain.plan import plan
from engine_operator.domain.rollout import place_of
from engine_operator.errors import UsageError
from engine_operator.executor import summary
from engine_operator.loops.board import Board
from engine_operator.loops.inbox import EngineKey, SourceKey
from engine_operator.loops.keeper import standing_of
from engine_operator.loops.look import Looker, source_of
from engine_operator.loops.poll import Poller
from engine_operator.loops.sources import ServalClients, Sources, Tools
from engine_operator.loops.sweep import Found, Sweeper, SweepParts
from engine_operator.observe import ManifestBook, Observer, desired_of
from engine_operator.profiles import defaults
from engine_operator.serval.client import Timeouts
from engine_operator.settings import Settings


@dataclass(frozen=True)
class Planned:
    """What would be done for one source or one engine."""

    kind: str
    namespace: str
    name: str
    actions: tuple[Action, ...]


def refuse() -> None:
    """The guard of a client that must not write."""
    raise UsageError("a plan changes nothing")


async def plan_all(settings: Settings, connection: Connection, output: str) -> int:
    """Print what a sweep of every source would do. Raises OperatorError."""
    namespaces = settings.namespaces or (connection.namespace,)
    async with ClusterClient(connection, guard=refuse, may_lack=settings.may_lack()) as cluster:
        found = [one for namespace in namespaces for one in await _plan(settings, cluster, namespace)]
    print(json.dumps([_plain(one) for one in found], indent=2) if output == "json" else as_text(found))
    return 0


async def _plan(settings: Settings, cluster: ClusterClient, namespace: str) -> list[Planned]:
    image = settings.runtime_image_cpu
    tools = Tools(
        cluster,
        EventRecorder(cluster, settings.identity),
        defaults(image, settings.runtime_image_gpu or image, settings.converter_image),
        ClusterIdentity(cluster),
    )
    clients = ServalClients(cluster, Timeouts())
    try:
        sources = Sources(
            tools,
            StoreBook(cluster, settings.patience(), False, settings.identity_grants()),
            clients,
            trust=60.0,
        )
        reader = ClusterReader(cluster)
        items = cluster.list(SERVAL_SOURCES, namespace)
        found = [await _plan_source(settings, sources, reader, item) async for item in items]
        return found + await _plan_engines(settings, sources, reader, namespace)
    finally:
        await clients.aclose()


async def _plan_source(settings: Settings, sources: Sources, reader: ClusterReader, item: Json) -> Planned:
    source, status = source_spec(item), read_source_status(item.get("status") or {})
    policy = settings.policy()
    knative = await knative_settings(sources.tools.cluster, settings.knative_namespace, policy.mode)
    parts = SweepParts(
        cluster=sources.tools.cluster,
        reader=reader,
        sources=sources,
        policy=policy,
        knative=lambda: knative,
        status_every=settings.status_every,
        owned_elsewhere=lambda _: frozenset(),
        offer=lambda *_: None,
    )
    key = SourceKey(source.namespace, source.name)
    sweeper = Sweeper(key, parts, Poller(key, _never, settings.poll_policy(), lambda _: None))
    survey = await reader.survey(source.namespace)
    found: Found = await sweeper.find(source, status, survey)
    sources.put(key, found.context())
    return Planned("ServalSource", source.namespace, source.name, found.planned.actions)


async def _plan_engines(
    settings: Settings, sources: Sources, reader: ClusterReader, namespace: str
) -> list[Planned]:
    policy, board = settings.policy(), Board()
    looker = Looker(reader, Observer(reader, ManifestBook(60.0)), sources, board, policy)
    found: list[Planned] = []
    survey = await reader.survey(namespace)
    _seat(survey, sources, board, namespace)
    for name in sorted(survey.engines):
        objects = await reader.engine(namespace, name)
        gathered = await looker.gather(objects, collect=True) if objects else None
        if gathered is None:
            continue
        round_, _ = gathered
        actions = tuple(plan(round_.desired, round_.observed, datetime.now(UTC), policy))
        found.append(Planned("TranslationEngine", namespace, name, actions))
    return found


def _seat(survey: Survey, sources: Sources, board: Board, namespace: str) -> None:
    """Say what all engines have, before one is planned for: quotas and places count the others."""
    for name, objects in survey.engines.items():
        try:
            engine = engine_spec(objects.engine)
        except UsageError:
            continue  # Told when its turn comes.
        status = read_engine_status(objects.engine.get("status") or {})
        service = service_state(objects.service) if objects.service else None
        around, key = sources.known_around(engine), EngineKey(namespace, name)
        board.enters(key, place_of(status, service))
        if around is not None:
            effective = desired_of(engine, status, around).effective
            board.stands(key, source_of(engine), standing_of(engine, objects, effective))


async def _never() -> Any:
    raise UsageError("a plan does not poll")


def as_text(found: list[Planned]) -> str:
    """One line an action; engines with nothing to do are counted."""
    lines: list[str] = []
    for one in found:
        lines += [f"{one.kind} {one.namespace}/{one.name}: {summary(action)}" for action in one.actions]
    quiet = sum(not one.actions for one in found)
    lines.append(f"{len(found) - quiet} with something to do, {quiet} with nothing.")
    return "\n".join(lines)


def _plain(one: Planned) -> Json:
    actions = [{"action": type(action).__name__, **_values(asdict(action))} for action in one.actions]
    return {"kind": one.kind, "namespace": one.namespace, "name": one.name, "actions": actions}


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _values(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_values(entry) for entry in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else value
