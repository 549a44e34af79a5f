"""One process of the operator, from start to end: watch, health, Lease, and the work of whoever leads."""

import asyncio
import logging
import secrets
import signal
from collections.abc import Coroutine
from dataclasses import replace

from engine_operator import kopf_app, metrics
from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.connection import Connection
from engine_operator.cluster.lease import Lease, LeaseName
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, REVISIONS, SERVAL_SOURCES
from engine_operator.domain.names import require_namespace
from engine_operator.errors import NotFound, UsageError
from engine_operator.health import HealthServer, Pulse
from engine_operator.loops.inbox import Inbox
from engine_operator.loops.leader import Leader
from engine_operator.loops.operator import Work
from engine_operator.settings import Settings

log = logging.getLogger(__name__)


async def require_kinds(cluster: ClusterClient, namespace: str) -> None:
    """Refuse to start where a kind is missing: a watch that never begins would look like peace."""
    for resource in (SERVAL_SOURCES, ENGINES, INFERENCE_SERVICES, REVISIONS):
        try:
            async for _ in cluster.list(resource, namespace):
                break
        except NotFound as error:
            raise UsageError(
                f"the cluster has no {resource.plural}.{resource.group}; install it first"
            ) from error


async def serve(settings: Settings, connection: Connection, stop: asyncio.Event) -> None:
    """Run until `stop` is set or a signal comes. Raises UsageError where starting makes no sense."""
    settings.require_images()
    namespaces = settings.namespaces or (connection.namespace,)
    for namespace in namespaces:
        require_namespace(namespace)
    settings = replace(settings, identity=f"{settings.identity}-{secrets.token_hex(4)}")
    pulse, inbox = Pulse(limit=settings.seconds(900.0, 120.0)), Inbox()
    health = HealthServer(pulse, settings.health_host, settings.health_port)
    limits = settings.limits()
    may_lack = settings.may_lack()
    async with ClusterClient(connection, limits=limits, may_lack=may_lack) as plain:
        await require_kinds(plain, namespaces[0])
        lease = Lease(
            plain, LeaseName(namespaces[0], settings.lease_name, settings.identity), settings.lease_timing()
        )
        async with ClusterClient(connection, guard=lease.check, limits=limits, may_lack=may_lack) as guarded:

            async def work() -> None:
                await Work(guarded, settings, namespaces, inbox, pulse).run()

            leader, ready = Leader(lease, work, metrics.LEADING.set), asyncio.Event()
            port = await health.start()
            log.info("serving health and metrics on port %d; working in %s", port, ", ".join(namespaces))
            try:
                watch = kopf_app.watch(inbox, connection, settings.watch_pace(), namespaces, ready)
                await _until_stopped(leader, watch, _mark_started(ready, pulse), stop)
            finally:
                await health.close()


async def _until_stopped(
    leader: Leader,
    watching: Coroutine[None, None, None],
    starting: Coroutine[None, None, None],
    stop: asyncio.Event,
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watch = asyncio.create_task(watching, name="watch")
    lead = asyncio.create_task(leader.run(), name="leader")
    started = asyncio.create_task(starting)
    stopped = asyncio.create_task(_log_stop(stop))
    try:
        await asyncio.wait({watch, lead, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # The Lease first: whoever waits for it may begin while the watch still ends.
        for task in (lead, started, stopped, watch):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    for task in (lead, watch):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _log_stop(stop: asyncio.Event) -> None:
    await stop.wait()
    log.info("stopping")


async def _mark_started(ready: asyncio.Event, pulse: Pulse) -> None:
    await ready.wait()
    pulse.started = True
