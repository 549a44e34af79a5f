"""The HTTP session that kopf watches through: one way to prove who we are, and a sign of life for every watch.

kopf would read its credentials once and ask again only after a 401; here each request carries the token as it is now.
kopf also keeps bookmarks to itself, which are the only sign that a silent watch lives; they are seen as they pass.
And kopf asks for whole objects, of which our handlers read the metadata: it gets only that.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from typing import Any

import aiohttp
import kopf

from engine_operator import metrics
from engine_operator.cluster.answers import retry_after
from engine_operator.cluster.connection import Connection

AFTER_REFUSAL = 2.0
"""Seconds until a request that was refused twice (401) is given back to kopf, which would repeat it at once."""

METADATA = "application/json;as=PartialObjectMetadata{0};g=meta.k8s.io;v=v1,application/json"
"""What is accepted for a watch, or with `List` for a list; whole objects where a server knows no other."""

_PLURAL = re.compile(r"/([a-z]+)$")
_OBJECTS = re.compile(r"/namespaces/[^/]+/[a-z]+$")


def login(connection: Connection) -> Callable[..., Awaitable[kopf.AiohttpSession]]:
    """kopf's login handler. It runs in kopf's event loop, where the session belongs."""

    async def handler(**_: Any) -> kopf.AiohttpSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=connection.tls),
            middlewares=(Watching(connection),),
            headers={"User-Agent": f"{connection.agent} kopf/{version('kopf')}"},
        )
        return kopf.AiohttpSession(
            aiohttp_session=session, server=connection.server, default_namespace=connection.namespace
        )

    return handler


class Watching:
    """Goes around each request of kopf's."""

    def __init__(self, connection: Connection, after_refusal: float = AFTER_REFUSAL) -> None:
        self._auth = connection.auth
        self._quiet = connection.quiet
        self._after_refusal = after_refusal

    async def __call__(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        watch = request.url.query.get("watch") == "true"
        if _OBJECTS.search(request.url.path):
            request.headers["Accept"] = METADATA.format("" if watch else "List")
        await self._while_quiet()
        answer = await self._authorized(request, send)
        if answer.status == 429:
            self._quiet.ask(retry_after(answer.headers.get("Retry-After")))
        found = _PLURAL.search(request.url.path)
        if answer.status == 200 and found is not None:
            if watch:
                answer.content = Marked(answer.content, found[1])  # type: ignore[assignment]
            else:
                metrics.watch_delivered(found[1])
                _never_null(answer)
        return answer

    async def _while_quiet(self) -> None:
        """kopf waits too, but begins anew when it takes the wait for a watch that died."""
        while (wait := self._quiet.left()) > 0:  # noqa: ASYNC110, since nobody tells when time has passed
            await asyncio.sleep(wait)

    async def _authorized(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._auth is None:
            return await send(request)
        request.headers["Authorization"] = f"Bearer {self._auth.bearer()}"
        answer = await send(request)
        if answer.status != 401:
            return answer
        self._auth.refused()
        answer.release()
        request.headers["Authorization"] = f"Bearer {self._auth.bearer()}"
        answer = await send(request)
        if answer.status == 401:
            await asyncio.sleep(self._after_refusal)
        return answer


def _never_null(answer: aiohttp.ClientResponse) -> None:
    """An empty list of metadata has `items: null`, over which kopf stumbles for good."""
    parse = answer.json

    async def parsed() -> Any:
        found = await parse()
        return {**found, "items": found["items"] or []} if "items" in found else found

    answer.json = parsed  # type: ignore[assignment,method-assign]


class Marked:
    """The content of a watch, marked as alive with each chunk that passes."""

    def __init__(self, content: aiohttp.StreamReader, resource: str) -> None:
        self._content = content
        self._resource = resource

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """As aiohttp's."""
        async for data in self._content.iter_chunked(size):
            metrics.watch_delivered(self._resource)
            yield data
