"""A uvicorn server in a thread of its own that can be stopped hard and started again on the same port."""

import asyncio
import contextlib
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from tests.support.serval.gate import Address

START_LIMIT = 10.0
STOP_LIMIT = 10.0


class _Uvicorn(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self.listening.set()

    async def main_loop(self) -> None:
        """Uvicorn's own loop looks ten times a second; tests start and stop too often for that."""
        assert self._stopping is not None, "startup comes first"
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close at once and reset what is open: no farewell to callers."""
        for listener in self.servers:
            listener.close()
        for used in sockets or []:
            used.close()
        self.abort()
        if self.server_state.tasks:
            await asyncio.wait(set(self.server_state.tasks), timeout=0.2)

    def leave(self) -> None:
        """End the main loop. Only in the server's own loop."""
        self.should_exit = True
        if self._stopping is not None:
            self._stopping.set()

    def abort(self, client: Address | None = None) -> None:
        """Reset the connection with one address, or every connection. Only in the server's own loop."""
        for connection in list(self.server_state.connections):
            if client is None or getattr(connection, "client", None) == client:
                connection.transport.abort()


class Server:
    """One listening address. `port` 0 takes a free one at the first start and keeps it."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._uvicorn is not None

    def start(self, app: ASGIApp) -> None:
        """Listen, for this application. Raises OSError if the address is taken, RuntimeError if it never listens."""
        if self._uvicorn is not None:
            return
        listener = socket.create_server((self.host, self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            app, http="h11", loop="asyncio", ws="none", lifespan="off", log_config=None, access_log=False
        )
        server = _Uvicorn(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="serval-stand-in", daemon=True)
        thread.start()
        if not server.listening.wait(START_LIMIT):
            raise RuntimeError(f"the server did not listen within {START_LIMIT} s")
        self._uvicorn, self._thread = server, thread

    def stop(self) -> None:
        """Refuse new connections and reset the present ones, as a process that was killed."""
        server, thread = self._uvicorn, self._thread
        if server is None or thread is None or server.loop is None:
            return
        self._uvicorn = self._thread = None
        server.loop.call_soon_threadsafe(server.leave)
        thread.join(STOP_LIMIT)
        if thread.is_alive():
            raise RuntimeError(f"the server did not stop within {STOP_LIMIT} s")

    def reset(self, client: Address) -> None:
        """Cut the connection with one client; from any thread."""
        server = self._uvicorn
        if server is not None and server.loop is not None:
            server.loop.call_soon_threadsafe(server.abort, client)
