"""One connection of a client and its twin to the server: two streams of bytes, and what the rules do to them."""

import asyncio
import contextlib
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable

from tests.support.fault_proxy.http import ANYTHING, Request, read_request, written
from tests.support.fault_proxy.rules import Fault, Kind, Rules

CHUNK = 65536
LOOK_AGAIN = 0.02
"""Seconds between two looks at a fault that holds bytes back."""


class Connection:
    """Serves one client until either side is done, or a fault says otherwise."""

    def __init__(
        self,
        client: tuple[StreamReader, StreamWriter],
        server: tuple[StreamReader, StreamWriter],
        rules: Rules,
        record: Callable[[Request], None] | None,
    ) -> None:
        """`record` is told of each request; None: bytes are not looked into."""
        self._client_reader, self._client = client
        self._server_reader, self._server = server
        self._rules = rules
        self._record = record
        self._request = ANYTHING
        self._passed = 0
        """Bytes of the answer to the present request."""
        self._deaf = False
        """The server is gone and the client must not notice."""
        self._timers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is over; closes both sides."""
        asking = asyncio.create_task(self._ask() if self._record else self._pass_questions())
        answering = asyncio.create_task(self._pass_answers())
        try:
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            if self._deaf:
                await asking
        finally:
            pending = {asking, answering, *self._timers}
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            for side in (self._client, self._server):
                side.close()

    async def _ask(self) -> None:
        """Requests, one after the other."""
        assert self._record is not None, "called for HTTP only"
        while (request := await read_request(self._client_reader)) is not None:
            self._request, self._passed = request, 0
            self._record(request)
            fault = self._rules.take(request)
            if fault is None:
                await self._hold()
                await self._forward(request)
            elif fault.after:
                await self._forward(request)
                self._later(fault, request)
            elif not await self._happen(fault, request):
                return

    async def _forward(self, request: Request) -> None:
        if self._deaf:
            return
        self._server.write(request.raw)
        left = request.body_length
        while left:
            data = await self._client_reader.read(min(left, CHUNK))
            if not data:
                return
            left -= len(data)
            self._server.write(data)
            await self._server.drain()

    async def _pass_questions(self) -> None:
        fault = self._rules.take(ANYTHING)
        if fault is not None and not fault.after and not await self._happen(fault, ANYTHING):
            return
        while data := await self._client_reader.read(CHUNK):
            await self._hold()
            if not self._deaf:
                self._server.write(data)
                await self._server.drain()

    async def _pass_answers(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._server_reader.read(CHUNK):
                fault = self._rules.take_at(self._request, self._passed + len(data))
                if fault is not None:
                    await self._happen(fault, self._request)
                    return
                await self._hold()
                self._passed += len(data)
                self._client.write(data)
                await self._client.drain()
            await self._hold()

    async def _hold(self) -> None:
        while self._rules.holds(self._request):  # noqa: ASYNC110, since a fault also ends by time
            await asyncio.sleep(LOOK_AGAIN)

    def _later(self, fault: Fault, request: Request) -> None:
        async def wait() -> None:
            await asyncio.sleep(fault.after)
            answered = fault.kind is Kind.ANSWER and self._passed > 0
            if self._request is request and not answered and not await self._happen(fault, request):
                self._client.close()
                self._server.close()

        timer = asyncio.create_task(wait())
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    async def _happen(self, fault: Fault, request: Request) -> bool:
        """Do it; False where the connection ends by it."""
        if fault.kind is Kind.ANSWER:
            assert fault.answer is not None, "this kind needs an answer"
            if not fault.after:
                await self._client_reader.readexactly(request.body_length)
            self._client.write(written(fault.answer))
            await self._client.drain()
            return not fault.after
        if fault.kind is Kind.RESET:
            _reset(self._client)
        if fault.kind is Kind.HALF_OPEN:
            self._deaf = True
            self._server.close()
            return True
        return False


def _reset(side: StreamWriter) -> None:
    """A reset instead of an orderly end."""
    carrier: socket.socket = side.get_extra_info("socket")
    carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.transport.abort()
