"""uvicorn's connections, with a limit of time for the head of a call, and with our words for what is no HTTP.

uvicorn limits how long a connection may be idle between two calls; one that is opened and sends nothing, or a byte a
minute, it keeps for ever.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nllb_predictor.errors import BadRequest, HeadTooSlow, RequestError
from nllb_predictor.server.faults import fault_of


class Connection(HttpToolsProtocol):
    """One connection of a caller."""

    head_seconds: float = 30.0
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit = self.loop.call_later(self.timeout_keep_alive, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._limit is None and not self._busy and not self.transport.is_closing():
            # An empty line between two calls: uvicorn takes it for the beginning of one, its parser does not.
            self._limit = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unlimited()
        self._limit = self.loop.call_later(self.head_seconds, self._too_slow)

    def on_headers_complete(self) -> None:
        self._unlimited()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unlimited()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn answers to bytes that are no HTTP, in the words of every other error."""
        self._unlimited()
        if self._busy:
            self.transport.close()
        else:
            self._refuse(BadRequest(msg, hint="Send HTTP/1.1."))

    @property
    def _busy(self) -> bool:
        """Whether an answer is not complete: nothing may be written between its parts."""
        return self.cycle is not None and not self.cycle.response_complete

    def _unlimited(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_slow(self) -> None:
        if self._busy:
            self._limit = self.loop.call_later(self.head_seconds, self._too_slow)
            return
        self._refuse(HeadTooSlow(f"The head of the call did not arrive within {self.head_seconds:g} s."))

    def _refuse(self, error: RequestError) -> None:
        fault = fault_of(error)
        self.transport.write(_answer(fault.status, fault.body()))
        self.transport.close()


def connections(head_seconds: float) -> type[Connection]:
    """The class of connections for a server: a head has this many seconds from its first byte. A new connection may
    wait for that byte as long as one between two calls."""

    class Limited(Connection):
        """With the limit of a server's settings."""

    Limited.head_seconds = head_seconds
    return Limited


def _answer(status: int, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        "connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + content
