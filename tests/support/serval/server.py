"""A uvicorn server in a thread of its own that can be stopped hard and started again on the same port."""

import asyncio
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.listening.set()

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
        server.should_exit = server.force_exit = True
        server.loop.call_soon_threadsafe(server.abort)
        thread.join(STOP_LIMIT)
        if thread.is_alive():
            raise RuntimeError(f"the server did not stop within {STOP_LIMIT} s")

    def reset(self, client: Address) -> None:
        """Cut the connection with one client; from any thread."""
        server = self._uvicorn
        if server is not None and server.loop is not None:
            server.loop.call_soon_threadsafe(server.abort, client)
