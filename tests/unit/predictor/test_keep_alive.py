"""A proxy's idle connection: whoever keeps it longer decides whether a call can meet a closed one (E8)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nllb_predictor.server import app
from tests.support.cases import case
from tests.support.in_process import in_process

PROXY_SECONDS = 90
"""How long Go's transport, thus Knative's proxy before the container, keeps an idle connection."""

make_rest = app.NllbServer._make_rest


def as_uvicorn_comes(self: app.NllbServer) -> Any:
    """Five seconds."""
    rest = make_rest(self)
    rest.config.timeout_keep_alive = 5
    return rest


class Connection:
    """One connection as a proxy keeps it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def live(self) -> int:
        """Status of one call on it. Raises IncompleteReadError or ConnectionError where the other side closed it."""
        self._writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.lower().splitlines() if line.startswith("content-length"))
        await self._reader.readexactly(int(length.partition(":")[2]))
        return int(head.split()[1])


@asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@case("E8", breaks="nllb_predictor.server.app:NllbServer._make_rest", naive=as_uvicorn_comes)
async def test_e8_an_idle_connection_is_used_again_for_as_long_as_a_proxy_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    plain, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: plain() + ahead)
    async with in_process() as process:
        url = process.client.base_url
        async with connected(str(url.host), int(url.port or 80)) as connection:
            assert await connection.live() == 200
            for idle in (6, 30, 64, PROXY_SECONDS):
                ahead += idle
                for _ in range(5):  # Timers that are due by now run.
                    await asyncio.sleep(0)
                assert await connection.live() == 200
