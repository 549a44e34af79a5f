"""The serving process: KServe's ModelServer with both protocols on one event loop, from open ports to the last answer.

Order of a start: ports open, then everything else happens beside them. Order of an end (SIGTERM): unready at once;
new calls are answered for the lame-duck time; then they are refused, running ones finish, and both servers stop
within one grace period. A second signal ends it at once. A failed load ends the process with the error's exit code.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn

from nllb_predictor.errors import PortTaken
from nllb_predictor.server import heap
from nllb_predictor.server.bodies import Bodies
from nllb_predictor.server.calls import Calls
from nllb_predictor.server.connections import connections
from nllb_predictor.server.grpc_server import make_server
from nllb_predictor.server.lifecycle import Lifecycle, PhaseName, Served, State
from nllb_predictor.server.loading import LoadingThread
from nllb_predictor.server.model import NllbModel, TruthfulDataPlane
from nllb_predictor.server.rest import RestApi
from nllb_predictor.server.sdk import ModelServer
from nllb_predictor.server.tracing import Traces
from nllb_predictor.server.wire.contract import Defaults
from nllb_predictor.settings import ServeSettings

log = logging.getLogger(__name__)

DRAIN_POLL_SECONDS = 0.02
LATE_BODY_SECONDS = 1.0
"""For the rest of a body that is on its way when calls begin to be refused: its sender gets an answer, not a cut."""
KEEP_ALIVE_SECONDS = 120
"""Longer than proxies keep an idle connection (Knative's: 90 s), so that no call meets one that we have just closed."""


@dataclass(frozen=True)
class Ports:
    """Where the process really listens."""

    rest: int
    grpc: int


class _Uvicorn(uvicorn.Server):
    """Without its own signal handlers, since two protocols need one shutdown, and with an event for "it answers"."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.answers.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class NllbServer(ModelServer):  # type: ignore[misc]
    """KServe's server with our data plane, routes, gRPC server and shutdown."""

    def __init__(self, settings: ServeSettings, lifecycle: Lifecycle, loading: LoadingThread) -> None:
        super().__init__(
            http_port=settings.rest_port,
            grpc_port=settings.grpc_port,
            workers=1,
            enable_latency_logging=False,
            grace_period=int(settings.grace_period_s),
        )
        self._settings = settings
        self._lifecycle = lifecycle
        self._loading = loading
        served = Served(settings.name, tuple(filter(None, (settings.engine_id, "default"))))
        self._traces = Traces.of(settings)
        calls = Calls(lifecycle.statistics, self._traces, settings.log_text)
        self.dataplane = TruthfulDataPlane(self.registered_models, lifecycle, served, calls)
        model = NllbModel(served, lifecycle, Defaults.of(settings))
        for name in served.all:
            self.register_model(model, name)
        self._bodies = Bodies(settings.body_timeout_s)
        self._stop = asyncio.Event()
        self.ports: Ports | None = None
        """Known once the process listens."""

    def run(self) -> None:
        """Serve until a signal or a failed load; raises the load's error."""
        asyncio.run(self._main())
        if self._lifecycle.failure is not None:
            raise self._lifecycle.failure

    async def _main(self) -> None:
        self._handle_signals()
        listener = listen(self._settings.host, self._settings.rest_port)
        rest = self._make_rest()
        serving = asyncio.create_task(rest.serve(sockets=[listener]))
        grpc_server = make_server(self.dataplane, self._settings)
        ports = self.ports = Ports(listener.getsockname()[1], self._bind(grpc_server))
        await grpc_server.start()
        await rest.answers.wait()
        self._lifecycle.since_start(PhaseName.PYTHON)
        if self._lifecycle.ready:
            self._lifecycle.since_start(PhaseName.READY)
        log.info("listening: rest=%d grpc=%d", ports.rest, ports.grpc)
        loop = asyncio.get_running_loop()
        self._loading.when_ended(partial(loop.call_soon_threadsafe, self._load_ended))
        keeping = asyncio.create_task(heap.keep_small(lambda: self._lifecycle.statistics.requests))
        await self._stop.wait()
        keeping.cancel()
        await self._shut_down(rest, serving, grpc_server)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._signalled, each)

    def _signalled(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            log.warning("second signal, ending at once: %s", number.name)
            os._exit(128 + number)
        log.info("signal: %s", number.name)
        self._lifecycle.enter(State.LAME_DUCK)
        self._stop.set()

    def _load_ended(self) -> None:
        if self._lifecycle.failure is not None:
            self._stop.set()

    def _make_rest(self) -> _Uvicorn:
        limit = self._settings.max_message_bytes
        app = RestApi(self.dataplane, self._lifecycle, limit, self._bodies).app()
        config = uvicorn.Config(
            app,
            http=connections(self._settings.body_timeout_s),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, int(self._settings.grace_period_s)),
        )
        return _Uvicorn(config)

    def _bind(self, server: Any) -> int:
        address = f"{self._settings.host}:{self._settings.grpc_port}"
        try:
            port = int(server.add_insecure_port(address))
        except RuntimeError as error:
            raise PortTaken(f"Cannot listen on {address} for gRPC: {error}") from error
        return port

    async def _shut_down(self, rest: _Uvicorn, serving: "asyncio.Task[None]", grpc_server: Any) -> None:
        """End both protocols within one grace period."""
        failed = self._lifecycle.failure is not None
        end = time.monotonic() + (0.0 if failed else self._settings.grace_period_s)
        if self._lifecycle.loaded is not None and not failed:
            await asyncio.sleep(self._settings.lame_duck_s)
        if not failed:
            self._lifecycle.enter(State.DRAINING)
            self._bodies.leave(LATE_BODY_SECONDS)
        while self._lifecycle.running and time.monotonic() < end:  # noqa: ASYNC110 (other threads count too)
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        left = max(0.0, end - time.monotonic())
        rest.should_exit = True
        rest.config.timeout_graceful_shutdown = max(1, int(left))
        rest.force_exit = left == 0.0 and self._lifecycle.running > 0
        await asyncio.gather(grpc_server.stop(grace=min(left, 1.0)), serving)
        if self._lifecycle.running:
            log.warning("calls cut at the end of the grace period: count=%d", self._lifecycle.running)
        if self._lifecycle.loaded is not None:
            self._lifecycle.loaded.scheduler.close()
            self._lifecycle.loaded.service.close()
        if self._traces is not None:
            await self._traces.close()
        log.info("stopped")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named since asyncio switches Nagle's algorithm off only for sockets that name it; with it on,
    # every second answer waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortTaken(f"Cannot listen on {host}:{port} for REST: {error.strerror}.") from error
    return listener
