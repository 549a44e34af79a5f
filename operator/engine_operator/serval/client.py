"""A client of the few Serval paths that the operator reads.

Refuses to guess: whatever is not clearly an answer of Serval's own becomes an error that says "this tells you nothing",
so that an outage can never look like an empty account. One seam for tests: the `httpx` transport.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from engine_operator.errors import (
    ServalDeclines,
    ServalError,
    ServalForbids,
    ServalLacks,
    ServalMisbehaved,
    ServalRefusedCredentials,
    ServalUnreachable,
)
from engine_operator.serval.bodies import NO_ANSWER, whole
from engine_operator.serval.dto import Build, ModelDownload, ServalEngine

T = TypeVar("T")

_ENGINES = TypeAdapter(list[ServalEngine])
_ENGINE = TypeAdapter(ServalEngine)
_BUILDS = TypeAdapter(list[Build])
_BUILD = TypeAdapter(Build)
_DOWNLOAD = TypeAdapter(ModelDownload)

_BY_STATUS: dict[int, type[ServalError]] = {
    400: ServalDeclines,
    401: ServalRefusedCredentials,
    403: ServalForbids,
    404: ServalLacks,
    405: ServalDeclines,
    409: ServalDeclines,
    **dict.fromkeys(NO_ANSWER, ServalUnreachable),
}


@dataclass(frozen=True)
class Timeouts:
    """Seconds a request may take."""

    read: float = 20.0
    """An ordinary GET. Serval itself cuts at 58 s, but lists answer in well under a second."""

    long_poll: float = 65.0
    """`next-finished`. Serval holds it 40 s and cuts at 58 s; a shorter limit would cut its answers off."""

    connect: float = 5.0
    """Establishing a connection."""

    whole: float = 120.0
    """One answer, from the request to its last byte: the limits above only count the time between two bytes."""


class ServalClient:
    """Reads one account. Use as an async context manager, or call `aclose`."""

    def __init__(
        self,
        base_url: str,
        auth: httpx.Auth,
        timeouts: Timeouts | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeouts = timeouts or Timeouts()
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/") + "/api/v1/",
            auth=auth,
            transport=transport,
            timeout=httpx.Timeout(self._timeouts.read, connect=self._timeouts.connect),
            headers={"Accept": "application/json", "User-Agent": "serval-live-operator"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def engines(self) -> list[ServalEngine]:
        """Every engine of the account, in no order. A list that can't be read whole is an error."""
        return self._parse(_ENGINES, await self._get("translation/engines"))

    async def engine(self, engine_id: str) -> ServalEngine:
        """One engine. Raises ServalLacks (404) or ServalForbids (403)."""
        return self._parse(_ENGINE, await self._get(f"translation/engines/{engine_id}"))

    async def builds(self, created_after: datetime) -> list[Build]:
        """The account's builds made after a moment, unsorted."""
        answer = await self._get("translation/builds", {"created-after": created_after.isoformat()})
        return self._parse(_BUILDS, answer)

    async def build(self, engine_id: str, build_id: str) -> Build:
        """One build. Raises ServalLacks once it was deleted with its engine."""
        return self._parse(_BUILD, await self._get(f"translation/engines/{engine_id}/builds/{build_id}"))

    async def next_finished(self, after: str) -> Build | None:
        """Long poll for the first build that finished after the build `after`; None if none did in time (408)."""
        answer = await self._send(
            "translation/builds/next-finished", {"finished-after": after}, self._timeouts.long_poll
        )
        if answer.status_code == 408 and not _is_html(answer):
            return None
        return self._parse(_BUILD, self._checked(answer))

    async def model_download(self, engine_id: str) -> ModelDownload:
        """A presigned URL of the current model. ServalMisbehaved (500) is what a missing object looks like."""
        return self._parse(_DOWNLOAD, await self._get(f"translation/engines/{engine_id}/model-download-url"))

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> httpx.Response:
        return self._checked(await self._send(path, query, self._timeouts.read))

    async def _send(self, path: str, query: Mapping[str, str] | None, limit: float) -> httpx.Response:
        timeout = httpx.Timeout(limit, connect=self._timeouts.connect)
        try:
            async with (
                asyncio.timeout(self._timeouts.whole),
                self._http.stream("GET", path, params=query, timeout=timeout) as answer,
            ):
                told = {"content-type": answer.headers.get("content-type", "")}
                content = await whole(answer)
                return httpx.Response(
                    answer.status_code, headers=told, content=content, request=answer.request
                )
        except TimeoutError as error:
            raise ServalUnreachable(
                f"{self._http.base_url}: no end of an answer within {self._timeouts.whole:.0f} s"
            ) from error
        except httpx.LocalProtocolError as error:
            # Its words may be a header's value, which is a key.
            raise ServalMisbehaved(f"{self._http.base_url}: the request could not be written") from error
        except httpx.HTTPError as error:
            raise ServalUnreachable(
                f"{self._http.base_url}: {type(error).__name__} {error}".rstrip()
            ) from error

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code == 200:
            return answer
        said = f"{answer.request.url.path} answered {answer.status_code}"
        if _is_html(answer):
            # A proxy's page: even its 404 or 403 is no statement about an engine.
            raise ServalUnreachable(f"{said} with a web page, so not Serval but something before it")
        raise _BY_STATUS.get(answer.status_code, ServalMisbehaved)(said)

    @staticmethod
    def _parse(shape: TypeAdapter[T], answer: httpx.Response) -> T:
        try:
            return shape.validate_json(answer.content)
        except ValidationError as error:
            first: Any = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ServalMisbehaved(
                f"{answer.request.url.path} sent an unexpected body: {where} {first['msg']}"
            ) from error


def _is_html(answer: httpx.Response) -> bool:
    return "html" in answer.headers.get("content-type", "")
