"""Heads and bodies that come slowly or never: a bounded time each, and none holds up the end of the process."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nllb_predictor.server import app
from nllb_predictor.server.bodies import Bodies
from tests.support.in_process import InProcess, in_process
from tests.support.waiting import eventually

BODY = json.dumps(
    {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["light"]}]}
).encode()
HEAD = f"POST /v2/models/nllb/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
UNTIL_CLOSED = 20
"""Seconds; a process that waited for the body would take its whole grace period, three times as long."""


class Half:
    """A connection on which the head and half of a body were sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, str]:
        """Status and reason of the answer; the server must close the connection after it."""
        head, _, body = (await asyncio.wait_for(self.reader.read(), UNTIL_CLOSED)).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)["reason"]


@asynccontextmanager
async def half_sent(process: InProcess) -> AsyncIterator[Half]:
    """A call whose body stops in the middle, and which the server is reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.ports.rest)
    try:
        writer.write(HEAD + BODY[: len(BODY) // 2])
        await eventually(lambda: len(process.server._bodies._arriving) == 1)
        yield Half(reader, writer)
    finally:
        writer.close()


async def test_a_body_that_does_not_arrive_is_refused_and_its_connection_closed() -> None:
    async with in_process(body_timeout_s=1) as process, half_sent(process) as half:
        assert await half.answer() == (408, "BodyTooSlow")
        assert (await process.infer("light")).status_code == 200
        assert process.server._bodies._arriving == set()


async def test_a_body_that_comes_in_pieces_within_the_time_is_answered() -> None:
    async with in_process() as process, half_sent(process) as half:
        half.writer.write(BODY[len(BODY) // 2 :])
        head = await half.reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"200"
        assert b"connection: close" not in head.lower()


async def test_a_half_sent_body_is_refused_at_the_end_of_the_process_and_does_not_hold_it_up() -> None:
    async with in_process(grace_period_s=60.0) as process, half_sent(process) as half:
        process.server._signalled(signal.SIGTERM)
        assert await half.answer() == (503, "ShuttingDown")
        await asyncio.wait_for(asyncio.shield(process.serving), UNTIL_CLOSED)


async def test_a_process_that_leaves_only_ever_shortens_the_time_of_a_body() -> None:
    bodies = Bodies(0.2)
    bodies.leave(app.LATE_BODY_SECONDS)
    assert bodies._seconds == 0.2


@asynccontextmanager
async def connected(process: InProcess) -> AsyncIterator[Half]:
    """A connection on which nothing was sent yet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.ports.rest)
    try:
        yield Half(reader, writer)
    finally:
        writer.close()


async def test_a_head_that_comes_byte_by_byte_is_refused_and_its_connection_closed() -> None:
    async with in_process(body_timeout_s=1) as process, connected(process) as caller:
        answer = asyncio.create_task(caller.answer())
        for byte in HEAD[:-1]:
            caller.writer.write(bytes([byte]))
            if (await asyncio.wait({answer}, timeout=0.1))[0]:
                break
        assert await answer == (408, "HeadTooSlow")
        assert (await process.infer("light")).status_code == 200


async def test_a_second_head_on_a_connection_has_no_more_time_than_the_first() -> None:
    async with in_process(body_timeout_s=1) as process, connected(process) as caller:
        caller.writer.write(HEAD + BODY)
        head = await caller.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await caller.reader.readexactly(int(length.split(b":")[1]))
        caller.writer.write(HEAD[:20])
        assert await caller.answer() == (408, "HeadTooSlow")


async def test_a_slow_head_behind_a_running_call_does_not_break_into_its_answer() -> None:
    async with in_process(body_timeout_s=1) as process, connected(process) as caller:
        process.engine.gate.clear()
        caller.writer.write(HEAD + BODY + HEAD[:20])
        await eventually(lambda: process.engine.running == 1)
        answer = asyncio.create_task(caller.reader.read())
        assert not (await asyncio.wait({answer}, timeout=2.5))[0]
        process.engine.gate.set()
        both = await asyncio.wait_for(answer, UNTIL_CLOSED)
        assert [part.split()[1] for part in both.split(b"HTTP/")[1:]] == [b"200", b"408"]


async def test_a_connection_that_sends_nothing_is_closed_after_the_time_of_an_idle_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "KEEP_ALIVE_SECONDS", 1)
    async with in_process() as process, connected(process) as caller:
        assert await asyncio.wait_for(caller.reader.read(), UNTIL_CLOSED) == b""


async def test_what_is_no_http_is_refused_in_the_words_of_every_error() -> None:
    async with in_process() as process, connected(process) as caller:
        caller.writer.write(b"\x16\x03\x01 this is TLS, or anything\r\n\r\n")
        assert await caller.answer() == (400, "BadRequest")


async def test_an_empty_line_between_two_calls_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "KEEP_ALIVE_SECONDS", 1)
    async with in_process() as process, connected(process) as caller:
        caller.writer.write(HEAD + BODY)
        assert (await caller.reader.readline()).split()[1] == b"200"
        caller.writer.write(b"\r\n")
        await asyncio.wait_for(caller.reader.read(), UNTIL_CLOSED)


async def test_what_is_no_http_behind_a_running_call_writes_nothing_into_its_answer() -> None:
    async with in_process() as process, connected(process) as caller:
        process.engine.gate.clear()
        caller.writer.write(HEAD + BODY + b"\x00\x01 garbage\r\n\r\n")
        assert await asyncio.wait_for(caller.reader.read(), UNTIL_CLOSED) == b""
