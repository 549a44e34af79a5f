"""A TCP proxy on loopback that can break connections and speak TLS: what real networks do to a download.

It passes bytes on unread. `cut_after` breaks the next `cuts` connections once so many bytes of the answer have passed.
"""

import contextlib
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType


class Proxy:
    """Stands before a server on loopback; use as a context manager."""

    def __init__(self, upstream_port: int, tls: tuple[Path, Path] | None = None) -> None:
        self._upstream_port = upstream_port
        self._context: ssl.SSLContext | None = None
        if tls is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*tls)
        self._lock = threading.Lock()
        self._cut_after, self._cuts = 0, 0
        self.broken = 0
        """Connections that were broken so far."""
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def break_next(self, cuts: int, after: int) -> None:
        """Break the next `cuts` connections whose answers reach `after` bytes."""
        with self._lock:
            self._cuts, self._cut_after = cuts, after

    def __enter__(self) -> "Proxy":
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _close(self._listener)
        for connection in list(self._open):
            _close(connection)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, accepted)

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            upstream = socket.create_connection(("127.0.0.1", self._upstream_port))
        except OSError:
            _close(client)
            return
        self._open |= {client, upstream}
        self._start(self._pump, client, upstream, False)
        self._pump(upstream, client, True)

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passed += len(data)
                if answers and self._should_break(passed):
                    break
                target.sendall(data)
        for end in (source, target):
            _close(end)
            self._open.discard(end)

    def _should_break(self, passed: int) -> bool:
        with self._lock:
            if self._cuts <= 0 or passed < self._cut_after:
                return False
            self._cuts -= 1
            self.broken += 1
            return True

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
