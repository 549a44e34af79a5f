"""Heads of HTTP/1.1 requests, and answers: as much of HTTP as it takes to break single requests.

Responses are never parsed: a client that does not pipeline asks again only when the last answer has ended.
"""

import time
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from tests.support.fault_proxy.rules import Answer

END = b"\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """One request as its head says; `at` is the monotonic clock at its arrival."""

    method: str
    target: str
    """`/path?query`."""
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes = field(repr=False)
    at: float = field(default_factory=time.monotonic)

    @property
    def agent(self) -> str:
        return self.headers.get("user-agent", "")

    @property
    def body_length(self) -> int:
        """Bytes that follow the head. Raises ValueError for a chunked body, which none of our clients sends."""
        if "transfer-encoding" in self.headers:
            raise ValueError(f"{self.method} {self.target}: a chunked request body")
        return int(self.headers.get("content-length", 0))


ANYTHING = Request("", "", {}, b"", at=0.0)
"""Stands for a connection whose bytes are not looked into."""


async def read_request(reader: StreamReader) -> Request | None:
    """The next request's head; None where the client has nothing more to ask. Raises ValueError for no HTTP."""
    try:
        raw = await reader.readuntil(END)
    except IncompleteReadError:
        return None
    except LimitOverrunError as error:
        raise ValueError("a request head of more than 64 KiB") from error
    first, *lines = raw.removesuffix(END).decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Request(method, target, {name.lower(): value.strip() for name, _, value in pairs}, raw)


def written(answer: Answer) -> bytes:
    """The whole answer."""
    body = (answer.body or "").encode()
    status = HTTPStatus(answer.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
    ]
    if answer.retry_after is not None:
        lines.append(f"Retry-After: {answer.retry_after}")
    return "\r\n".join(lines).encode() + END + body
