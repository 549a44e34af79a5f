"""The listening socket of the REST server."""

import asyncio
import socket

import pytest

from nllb_predictor.errors import PortTaken
from nllb_predictor.server.app import listen


async def test_answers_are_not_held_back_for_an_acknowledgement() -> None:
    """Without TCP_NODELAY on accepted connections every second answer waits for the peer's delayed ACK."""
    accepted: asyncio.Queue[int] = asyncio.Queue()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket")
        accepted.put_nowait(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen("127.0.0.1", 0)
    async with await asyncio.start_server(connected, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await asyncio.wait_for(accepted.get(), 10) != 0
        writer.close()
        await writer.wait_closed()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            listen("127.0.0.1", port)
