"""A busy name server is asked again and counted; a name that does not exist is not."""

import asyncio
import socket
from typing import Any

import pytest

from tests.support.live.names import Names, NotResolved

HOST = "engine.example"


class Resolver:
    """Answers look-ups of the running loop: first with errors, then with an address."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def __call__(self, host: str, port: None, **_: Any) -> list[Any]:
        self.asked += 1
        if self.errors:
            raise socket.gaierror(self.errors.pop(0), "as the test wishes")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.96.0.7", 0))]


async def test_a_look_up_that_is_not_answered_in_time_is_made_again_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = Resolver(socket.EAI_AGAIN, socket.EAI_AGAIN)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    names = Names()
    assert await names.address(HOST, patience=30) == "10.96.0.7"
    assert (names.looked_up, names.repeated) == (1, 2)


async def test_a_name_that_does_not_exist_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(socket.EAI_NONAME)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    names = Names()
    with pytest.raises(NotResolved, match=HOST):
        await names.address(HOST, patience=30)
    assert (resolver.asked, names.repeated) == (1, 0)


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", Resolver(socket.EAI_AGAIN))
    with pytest.raises(NotResolved):
        await Names().address(HOST, patience=0)
