"""Bodies of bounded size: an account's address may lead anywhere, and an answer without an end must not take the memory
of the process that serves all the other accounts."""

import httpx

from engine_operator.errors import ServalMisbehaved

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
