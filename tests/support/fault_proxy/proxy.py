"""The proxy as one object: a server with a thread and an event loop of its own, for tests of either kind."""

import asyncio
import contextlib
import ssl
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support.fault_proxy.connection import Connection
from tests.support.fault_proxy.http import Request
from tests.support.fault_proxy.rules import Fault, Rules

LOOPBACK = "127.0.0.1"
CLOSING = 0.5
"""Seconds that an orderly end of a connection may take."""


@dataclass(frozen=True)
class Upstream:
    """Where bytes go."""

    port: int
    host: str = LOOPBACK
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """How to speak TLS to it; None: plain."""


class FaultProxy:
    """Use as a context manager. Everything may be called from any thread.

    `http` False passes bytes unread: faults then hit whole connections, and TLS goes through from end to end unless
    `tls` ends it here.
    """

    def __init__(self, upstream: Upstream, tls: ssl.SSLContext | None = None, http: bool = True) -> None:
        self._upstream = upstream
        self._tls = tls
        self._http = http
        self._rules = Rules()
        self._seen: list[Request] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{LOOPBACK}:{self.port}"

    def add(self, fault: Fault) -> Fault:
        """From now on, until `mend`, or as long as the fault itself says."""
        self._rules.add(fault)
        return fault

    def mend(self, fault: Fault | None = None) -> None:
        """End one fault, or all."""
        self._rules.remove(fault)

    def requests(self, path: str = "", agent: str = "") -> list[Request]:
        """Requests so far, oldest first, whose `path?query` and whose user agent hold these texts."""
        return [one for one in list(self._seen) if path in one.target and agent in one.agent]

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None, "stopped only after a start"
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await asyncio.sleep(
            CLOSING / 10
        )  # Transports that were aborted close their sockets in the loop's next rounds.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server runs each connection in a task"
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        upstream = self._upstream
        try:
            server = await asyncio.open_connection(upstream.host, upstream.port, ssl=upstream.tls)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        record = self._seen.append if self._http else None
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await Connection((reader, writer), server, self._rules, record).run()
        await _closed(writer, server[1])


async def _closed(*sides: asyncio.StreamWriter) -> None:
    """Wait for what was written to leave, but not for a peer that does not read."""
    with contextlib.suppress(OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(CLOSING):
            await asyncio.gather(*(side.wait_closed() for side in sides), return_exceptions=True)
    for side in sides:
        side.transport.abort()
