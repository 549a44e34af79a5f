"""The wiring to kopf: it watches, we put keys into the inbox. Nothing else is kopf's.

Refuses everything by which kopf writes to the cluster: handlers of changes (they annotate), finalizers, peering, posted
events. A watch event says that something changed, never what to do about it.

kopf gets a thread and an event loop of its own: when it ends it cancels every task that it finds in its loop, and would
end our work before its Lease is given back.
"""

import asyncio
import itertools
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Protocol, cast

import kopf

from engine_operator.cluster.connection import Connection, WatchPace
from engine_operator.domain import wire
from engine_operator.errors import UsageError
from engine_operator.kopf_session import login
from engine_operator.loops.inbox import EngineKey, Inbox, Mark, SourceKey

log = logging.getLogger(__name__)


class Touches(Protocol):
    """What handlers do with a key."""

    def touch_engine(self, key: EngineKey, mark: Mark | None = None) -> None:
        """Something of an engine changed, or was deleted (no mark)."""

    def touch_source(self, key: SourceKey) -> None:
        """A ServalSource changed."""


class AcrossThreads:
    """Touches an inbox that belongs to another thread's event loop."""

    def __init__(self, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
        self._inbox = inbox
        self._loop = loop

    def touch_engine(self, key: EngineKey, mark: Mark | None = None) -> None:
        self._loop.call_soon_threadsafe(self._inbox.touch_engine, key, mark)

    def touch_source(self, key: SourceKey) -> None:
        self._loop.call_soon_threadsafe(self._inbox.touch_source, key)


class _Relay(threading.Event):
    """A flag that kopf raises in its thread, and that sets an event of ours."""

    def __init__(self, event: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._event = event
        self._loop = loop

    def set(self) -> None:
        super().set()
        self._loop.call_soon_threadsafe(self._event.set)


def registry(inbox: Touches) -> kopf.OperatorRegistry:
    """The handlers: what touches which key."""
    handlers = kopf.OperatorRegistry()
    ours: dict[str, Any] = {"registry": handlers, "labels": {wire.LABEL_ENGINE: kopf.PRESENT}}

    async def source(namespace: str | None, name: str | None, **_: Any) -> None:
        inbox.touch_source(SourceKey(str(namespace), str(name)))

    async def engine(namespace: str | None, name: str | None, **given: Any) -> None:
        inbox.touch_engine(EngineKey(str(namespace), str(name)), mark_of(given))

    async def child(namespace: str | None, labels: Mapping[str, str], **given: Any) -> None:
        inbox.touch_engine(EngineKey(str(namespace), labels[wire.LABEL_ENGINE]), mark_of(given))

    kopf.on.event(wire.GROUP, wire.VERSION, "servalsources", registry=handlers)(source)
    kopf.on.event(wire.GROUP, wire.VERSION, "translationengines", registry=handlers)(engine)
    kopf.on.event("serving.kserve.io", "v1beta1", "inferenceservices", **ours)(child)
    kopf.on.event("batch", "v1", "jobs", **ours)(child)
    return handlers


def mark_of(given: Mapping[str, Any]) -> Mark | None:
    """What an event saw; None for a deletion, whose object keeps the version that it had."""
    metadata = given["meta"]
    if given["type"] == "DELETED":
        return None
    return str(metadata["uid"]), str(metadata["resourceVersion"])


class Endless:
    """Waits between kopf's tries, without an end: after a last one it would end the whole process."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1.0, 1.0, 2.0, 3.0, 5.0), itertools.repeat(8.0))


def settings(pace: WatchPace) -> kopf.OperatorSettings:
    """kopf's settings: read-only, quiet, quick to notice a dead connection, and never at the end of its patience."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.watching.inactivity_timeout = pace.silence
    chosen.watching.server_timeout = pace.life
    chosen.watching.client_timeout = pace.life * 1.1
    chosen.watching.chunk_size = 250
    # A worker keeps its object's last event for this long: of a first list, all objects at once.
    chosen.queueing.idle_timeout = 0.2
    for plural in ("inferenceservices.serving.kserve.io", "jobs.batch"):
        chosen.watching.label_selectors[plural] = wire.LABEL_ENGINE
    chosen.networking.request_timeout = pace.request
    chosen.networking.connect_timeout = pace.connect
    chosen.networking.error_backoffs = Endless()
    chosen.networking.enforce_retry_after = True
    return chosen


IDENTITY = "serval-live"
"""kopf's name among its peers. We have none, but left alone it asks for the user's name, and a pod's uid has none."""


def require_versions(python: tuple[int, ...], kopf_version: str) -> None:
    """Refuse what can't notice a watch that is dead: kopf does so from 1.44 on, with Python 3.11. Raises UsageError."""
    found = tuple(int(part) for part in kopf_version.split(".")[:2])
    if python[:2] < (3, 11) or found < (1, 44):
        running = ".".join(str(part) for part in python[:2])
        raise UsageError(
            f"Python {running} with kopf {kopf_version} never notices a watch whose connection died; "
            "needed are Python 3.11 and kopf 1.44"
        )


async def watch(
    inbox: Inbox, connection: Connection, pace: WatchPace, namespaces: tuple[str, ...], ready: asyncio.Event
) -> None:
    """Watch until cancelled; sets `ready` when the watch has begun. Raises UsageError for versions that are too old."""
    require_versions(sys.version_info[:3], version("kopf"))
    loop = asyncio.get_running_loop()
    began, end = _Relay(ready, loop), threading.Event()
    handlers = registry(AcrossThreads(inbox, loop))
    kopf.on.login(registry=handlers, id="login")(login(connection))
    operator = kopf.operator(
        registry=handlers,
        settings=settings(pace),
        standalone=True,
        identity=cast(Any, IDENTITY),
        namespaces=list(namespaces),
        ready_flag=began,
        stop_flag=end,
    )
    thread = asyncio.ensure_future(asyncio.to_thread(asyncio.run, operator))
    try:
        await asyncio.shield(thread)
    finally:
        end.set()
        await asyncio.wait({thread})
