"""What an answer is worth: statuses that are none, and bodies of bounded size. An account's address may lead anywhere,
and an answer without an end must not take the memory of the process that serves all the other accounts."""

from collections.abc import AsyncIterable, AsyncIterator

import httpx

from engine_operator.errors import ServalMisbehaved

NO_ANSWER = frozenset({408, 429, 499, 502, 503, 504})
"""Statuses that say only that nobody answered, be it Serval, its identity provider or a proxy before them."""

MOST_BYTES = 64 * 1024 * 1024
"""Unpacked. An account of ten thousand engines lists them in about 10 MB."""


async def whole(answer: httpx.Response, most: int = MOST_BYTES) -> bytes:
    """The body of a streamed answer. Raises ServalMisbehaved as soon as it has more than `most` bytes."""
    body = bytearray()
    async for block in answer.aiter_bytes():
        body += block
        if len(body) > most:
            raise ServalMisbehaved(f"{answer.request.url.path} sent more than {most} bytes")
    return bytes(body)


async def bounded(answer: httpx.Response, most: int) -> bytes:
    """The body of an answer that httpx reads once more itself: one inside of an `httpx.Auth`.

    Raises ServalMisbehaved as soon as it has more than `most` bytes, and for a packed one, which was not asked for: its
    bound would say nothing about what comes out.
    """
    path = answer.request.url.path
    if (packed := answer.headers.get("Content-Encoding", "identity")) != "identity":
        raise ServalMisbehaved(f"{path} sent a body packed by {packed!r}, which was not asked for")
    if isinstance(answer.stream, httpx.AsyncByteStream):
        answer.stream = _Bounded(answer.stream, most, path)
    return await answer.aread()


class _Bounded(httpx.AsyncByteStream):
    """A body that may not be longer than `most` bytes."""

    def __init__(self, body: httpx.AsyncByteStream, most: int, path: str) -> None:
        self._body: AsyncIterable[bytes] = body
        self._close = body.aclose
        self._most = most
        self._path = path

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for block in self._body:
            left -= len(block)
            if left < 0:
                raise ServalMisbehaved(f"{self._path} sent more than {self._most} bytes")
            yield block

    async def aclose(self) -> None:
        await self._close()
