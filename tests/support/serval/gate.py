"""What every API request passes on its way in and out: faults, the time limit, the journal, the version header."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.support.serval.backend import OWNER_IN_SCOPE, Backend, Entry
from tests.support.serval.faults import Answer, Fault, Kind
from tests.support.serval.responses import of_status

ADMIN_PREFIX = "/_standin"
_LONG_VERSION = re.compile(r"^/api/v1\.0(?=/)", re.IGNORECASE)
Address = tuple[str, int]


@dataclass
class _Exchange:
    """One request on its way: how it was asked and what has been answered so far."""

    scope: Scope
    receive: Receive
    send: Send
    on_status: "Callable[[_Exchange], None]"
    started: float = field(default_factory=time.monotonic)
    status: int | None = None

    @property
    def target(self) -> str:
        return f"{self.scope['path']}?{self.scope['query_string'].decode()}"

    async def answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.on_status(self)
            if str(self.scope["path"]).lower().startswith("/api/"):
                message = {**message, "headers": [*message["headers"], (b"api-supported-versions", b"1.0")]}
        await self.send(message)


class Gate:
    """The outermost application. `reset` cuts the connection with a client address at once."""

    def __init__(self, app: ASGIApp, backend: Backend, reset: Callable[[Address], None]) -> None:
        self._app = app
        self._backend = backend
        self._reset = reset
        self._in_flight: dict[int, _Exchange] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or str(scope["path"]).startswith(ADMIN_PREFIX):
            await self._app(scope, receive, send)
            return
        _shorten_version(scope)
        exchange = _Exchange(scope, receive, send, self._note)
        self._in_flight[id(exchange)] = exchange
        try:
            async with asyncio.timeout(self._backend.settings.request_timeout):
                await self._with_faults(exchange)
        except TimeoutError:
            await self._send_status(exchange, Answer(499))
        except asyncio.CancelledError:
            pass  # the server's loop ends and its connections are gone already; uvicorn would log an error
        finally:
            del self._in_flight[id(exchange)]
            if exchange.status is None:
                self._note(exchange)

    def reset_in_flight(self, path: str) -> int:
        """Cut every request whose path matches, where it stands; returns how many."""
        hit = [e for e in list(self._in_flight.values()) if re.search(path, e.target, re.IGNORECASE)]
        for exchange in hit:
            self._reset(exchange.scope["client"])
        return len(hit)

    async def _with_faults(self, exchange: _Exchange) -> None:
        fault = self._backend.faults.take(exchange.scope["method"], exchange.target)
        if fault is None:
            await self._serve(exchange)
        elif fault.kind is Kind.PASS:
            await asyncio.sleep(fault.after)
            await self._serve(exchange)
        else:
            await self._break(exchange, fault)

    async def _break(self, exchange: _Exchange, fault: Fault) -> None:
        """Let the request run until the fault shows; an answer that comes before stands."""
        if fault.after > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(fault.after):
                    await self._serve(exchange)
            if exchange.status is not None:
                return
        if fault.kind is Kind.RESET or fault.answer is None:
            self._reset(exchange.scope["client"])
            while (await exchange.receive())["type"] != "http.disconnect":
                continue
        else:
            await self._send_status(exchange, fault.answer)

    async def _serve(self, exchange: _Exchange) -> None:
        await self._app(exchange.scope, exchange.receive, exchange.answer)

    async def _send_status(self, exchange: _Exchange, answer: Answer) -> None:
        if exchange.status is not None:
            return
        response = of_status(answer.status)
        if answer.body is not None:
            response.body = answer.body.encode()
            response.headers["content-length"] = str(len(response.body))
            response.headers["content-type"] = answer.content_type
        if answer.retry_after is not None:
            response.headers["retry-after"] = str(answer.retry_after)
        await response(exchange.scope, exchange.receive, exchange.answer)

    def _note(self, exchange: _Exchange) -> None:
        """Write the journal before the answer leaves, so that whoever got it finds its entry."""
        scope: MutableMapping[str, Any] = exchange.scope
        entry = Entry(
            started=exchange.started,
            seconds=time.monotonic() - exchange.started,
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode(),
            owner=scope.get(OWNER_IN_SCOPE),
            by_key=any(name == b"x-api-key" for name, _ in scope["headers"]),
            status=exchange.status,
        )
        self._backend.journal.add(entry)


def _shorten_version(scope: Scope) -> None:
    scope["path"] = _LONG_VERSION.sub("/api/v1", scope["path"])
