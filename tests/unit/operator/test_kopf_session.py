"""kopf's session: the token as it is now, and signs of life that kopf keeps to itself."""

import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from engine_operator import metrics
from engine_operator.cluster.connection import Connection, TokenFileAuth
from engine_operator.kopf_session import Watching
from tests.support.cases import case

PATH = "/apis/serving.kserve.io/v1beta1/namespaces/ns/inferenceservices"


class Api:
    """Accepts one token; its watch sends a bookmark and ends."""

    def __init__(self) -> None:
        self.accepted = "first"
        self.busy: list[web.Response] = []
        self.tokens: list[str] = []
        self.accepts: list[str] = []
        self.items: Any = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", "").removeprefix("Bearer "))
        self.accepts.append(request.headers.get("Accept", ""))
        if self.busy:
            return self.busy.pop()
        if self.tokens[-1] != self.accepted:
            return web.Response(status=401)
        if request.query.get("watch") != "true":
            return web.json_response({"items": self.items})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"type": "BOOKMARK"}\n')
        return answer


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get(PATH, api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


def connection(auth: TokenFileAuth) -> Connection:
    return Connection("https://unused.example", ssl.create_default_context(), "ns", auth)


def session(auth: TokenFileAuth) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(middlewares=(Watching(connection(auth)),))


async def kept(self: Watching, request: aiohttp.ClientRequest, send: Callable[..., Any]) -> Any:
    """As a client does that reads its token once."""
    token = getattr(self, "token", None) or self._auth.bearer()  # type: ignore[union-attr]
    self.token = token  # type: ignore[attr-defined]
    request.headers["Authorization"] = f"Bearer {token}"
    return await send(request)


@case("A15", breaks="engine_operator.kopf_session:Watching._authorized", naive=kept)
async def test_a15_a_rotated_token_is_used_by_the_next_request_of_the_watches(tmp_path: Path) -> None:
    file, api, now = tmp_path / "token", Api(), [0.0]
    file.write_text("first")
    async with serving(api) as url, session(TokenFileAuth(file, lambda: now[0])) as http:
        assert (await http.get(url)).status == 200
        file.write_text("second")
        now[0] += 31
        api.accepted = "second"
        assert (await http.get(url)).status == 200
        assert api.tokens == ["first", "second"], "never asked with the old one"


async def test_a15_a_token_that_is_refused_early_is_read_again_at_once(tmp_path: Path) -> None:
    file, api = tmp_path / "token", Api()
    file.write_text("first")
    async with serving(api) as url, session(TokenFileAuth(file, lambda: 0.0)) as http:
        assert (await http.get(url)).status == 200
        file.write_text("second")
        api.accepted = "second"
        assert (await http.get(url)).status == 200


async def test_a_token_that_is_refused_for_good_is_not_asked_with_again_at_once(tmp_path: Path) -> None:
    file, api, pause = tmp_path / "token", Api(), 0.3
    file.write_text("nobody's")
    watching = Watching(connection(TokenFileAuth(file, lambda: 0.0)), after_refusal=pause)
    async with serving(api) as url, aiohttp.ClientSession(middlewares=(watching,)) as http:
        before = time.monotonic()
        assert (await http.get(url)).status == 401
        assert time.monotonic() - before >= pause
    assert api.tokens == ["nobody's"] * 2


@case("A1", breaks="engine_operator.metrics:watch_delivered")
async def test_a1_a_bookmark_is_a_sign_of_life(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")

    def age() -> float | None:
        return metrics.REGISTRY.get_sample_value(
            "serval_live_watch_age_seconds", {"resource": "inferenceservices"}
        )

    async with (
        serving(Api()) as url,
        session(TokenFileAuth(file)) as http,
        http.get(url, params={"watch": "true"}) as answer,
    ):
        chunks = [data async for data in answer.content.iter_chunked(1024)]
    assert chunks == [b'{"type": "BOOKMARK"}\n']
    young = age()
    assert young is not None
    assert young < 5
    older = age()
    assert older is not None
    assert older > young, "it grows by itself"


@case("A3", breaks="engine_operator.cluster.connection:Quiet.ask")
async def test_a3_a_watch_that_begins_anew_waits_as_long_as_the_server_asked(tmp_path: Path) -> None:
    file, api = tmp_path / "token", Api()
    file.write_text("first")
    api.busy = [web.Response(status=429, headers={"Retry-After": "1"})]
    async with serving(api) as url, session(TokenFileAuth(file)) as http:
        before = time.monotonic()
        assert (await http.get(url)).status == 429
        assert (await http.get(url)).status == 200
        assert time.monotonic() - before >= 1.0


async def test_kopf_gets_the_metadata_of_objects_alone(tmp_path: Path) -> None:
    file, api = tmp_path / "token", Api()
    file.write_text("first")
    async with serving(api) as url, session(TokenFileAuth(file)) as http:
        assert (await http.get(url)).status == 200
        assert (await http.get(url, params={"watch": "true"})).status == 200
    kinds = [accepted.partition(";as=")[2].partition(";")[0] for accepted in api.accepts]
    assert kinds == ["PartialObjectMetadataList", "PartialObjectMetadata"]
    assert all(accepted.endswith(",application/json") for accepted in api.accepts), (
        "older servers send the whole"
    )


async def test_a_list_without_objects_is_an_empty_one(tmp_path: Path) -> None:
    """As the API server writes a list of metadata: kopf would end over `null`."""
    file, api = tmp_path / "token", Api()
    file.write_text("first")
    async with serving(api) as url, session(TokenFileAuth(file)) as http:
        api.items = None
        assert await (await http.get(url)).json() == {"items": []}
        api.items = [{"metadata": {"name": "x"}}]
        assert await (await http.get(url)).json() == {"items": api.items}
