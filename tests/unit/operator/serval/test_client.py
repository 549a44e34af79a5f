"""What is an answer of Serval's and what is not: an outage must never look like an empty account."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest

from engine_operator.errors import (
    OperatorError,
    ServalDeclines,
    ServalForbids,
    ServalLacks,
    ServalMisbehaved,
    ServalRefusedCredentials,
    ServalUnreachable,
)
from engine_operator.serval.auth import ApiKeyAuth, ClientCredentials, ClientCredentialsAuth
from engine_operator.serval.bodies import MOST_BYTES
from engine_operator.serval.client import ServalClient, Timeouts
from engine_operator.serval.dto import BuildState

ENGINE = {
    "id": "66c4a1f09d3e5b7a8c0f1e21",
    "url": "/api/v1/translation/engines/66c4a1f09d3e5b7a8c0f1e21",
    "sourceLanguage": "es",
    "targetLanguage": "kmr-Latn",
    "type": "nmt",
    "isBuilding": False,
    "modelRevision": 3,
    "confidence": 0,
    "corpusSize": 7921,
    "somethingNew": {"of": "tomorrow"},
}


class Script:
    """Answers requests in order, and remembers them."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(script: Script, auth: httpx.Auth | None = None) -> ServalClient:
    """A client whose transport is the script."""
    return ServalClient(
        "https://serval.example/", auth or ApiKeyAuth("serval_key"), transport=httpx.MockTransport(script)
    )


async def test_a_list_is_read_with_omitted_nulls_and_fields_of_tomorrow() -> None:
    script = Script(httpx.Response(200, json=[ENGINE]))
    (engine,) = await client(script).engines()
    assert (engine.id, engine.model_revision, engine.is_model_persisted) == (ENGINE["id"], 3, None)
    assert str(script.requests[0].url) == "https://serval.example/api/v1/translation/engines"
    assert script.requests[0].headers["X-API-Key"] == "serval_key"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={}),
        httpx.Response(200, text=""),
        httpx.Response(200, json=[{**ENGINE, "id": "not an id"}]),
        httpx.Response(500),
    ],
)
async def test_a_list_that_is_not_one_is_an_error_and_never_an_empty_account(answer: httpx.Response) -> None:
    with pytest.raises(ServalMisbehaved):
        await client(Script(answer)).engines()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ServalDeclines),
        (401, ServalRefusedCredentials),
        (403, ServalForbids),
        (404, ServalLacks),
        (405, ServalDeclines),
        (499, ServalUnreachable),
        (500, ServalMisbehaved),
        (502, ServalUnreachable),
        (503, ServalUnreachable),
        (504, ServalUnreachable),
    ],
)
async def test_each_status_has_one_meaning(status: int, error: type[OperatorError]) -> None:
    with pytest.raises(error):
        await client(Script(httpx.Response(status))).engine("66c4a1f09d3e5b7a8c0f1e21")


@pytest.mark.parametrize("status", [200, 403, 404, 408])
async def test_a_proxys_page_says_nothing_about_an_engine(status: int) -> None:
    page = httpx.Response(status, html="<h1>maintenance</h1>")
    with pytest.raises((ServalUnreachable, ServalMisbehaved)):
        await client(Script(page)).engine("66c4a1f09d3e5b7a8c0f1e21")


async def test_a_cut_connection_is_unreachable() -> None:
    with pytest.raises(ServalUnreachable):
        await client(Script(httpx.ReadError("reset"))).engines()


async def test_an_empty_poll_is_none_and_a_poll_through_a_broken_proxy_is_not() -> None:
    assert await client(Script(httpx.Response(408, json={"status": 408}))).next_finished("b1") is None
    with pytest.raises(ServalUnreachable):
        await client(Script(httpx.Response(408, html="<h1>proxy</h1>"))).next_finished("b1")


async def test_a_finished_build_is_read_with_its_engine_and_date() -> None:
    body = {
        "id": "66c4b7d2e1f0a9b8c7d6e5f4",
        "engine": {"id": ENGINE["id"], "url": "/x"},
        "state": "Completed",
        "dateFinished": "2026-08-20T18:02:31.77Z",
        "executionData": {"trainCount": 1, "resolvedSourceLanguage": "spa_Latn"},
    }
    script = Script(httpx.Response(200, json=body))
    build = await client(script).next_finished("b1")
    assert build is not None
    assert build.state is BuildState.COMPLETED
    assert build.date_finished == datetime(2026, 8, 20, 18, 2, 31, 770000, tzinfo=UTC)
    assert script.requests[0].url.params["finished-after"] == "b1"


async def test_a_state_of_tomorrow_does_not_spoil_a_list() -> None:
    body = [{"id": "b", "engine": {"id": "e"}, "state": "Hibernating"}]
    (build,) = await client(Script(httpx.Response(200, json=body))).builds(datetime.now(UTC))
    assert build.state is BuildState.UNKNOWN
    assert not build.state.terminal


async def test_a_download_url_is_a_secret_that_no_repr_shows() -> None:
    body = {
        "url": "https://store/x?X-Amz-Signature=secret",
        "modelRevision": 3,
        "expiresAt": "2026-08-20T19:10:00.1234567Z",
    }
    download = await client(Script(httpx.Response(200, json=body))).model_download(str(ENGINE["id"]))
    assert download.model_revision == 3
    assert "secret" not in repr(download)


CREDENTIALS = ClientCredentials("https://id.example/oauth/token", "ruth", "hush")


def token(name: str, life: float = 3600) -> httpx.Response:
    """An identity provider's answer."""
    return httpx.Response(200, json={"access_token": name, "expires_in": life})


async def test_a_token_is_fetched_once_and_renewed_before_it_ends() -> None:
    now = 0.0
    script = Script(
        token("first"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json=[]),
        token("second"),
        httpx.Response(200, json=[]),
    )
    serval = client(script, ClientCredentialsAuth(CREDENTIALS, clock=lambda: now))
    await serval.engines()
    await serval.engines()
    now = 1200.0
    await serval.engines()
    sent = [request.headers.get("Authorization") for request in script.requests]
    assert sent == [None, "Bearer first", "Bearer first", None, "Bearer second"]
    assert b"grant_type=client_credentials" in script.requests[0].content


async def test_a_token_that_is_refused_midway_is_renewed_exactly_once() -> None:
    script = Script(
        token("old"), httpx.Response(200, json=[]), httpx.Response(401), token("new"), httpx.Response(401)
    )
    serval = client(script, ClientCredentialsAuth(CREDENTIALS))
    await serval.engines()
    with pytest.raises(ServalRefusedCredentials):
        await serval.engines()
    assert script.answers == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(401), ServalRefusedCredentials),
        (httpx.Response(500), ServalMisbehaved),
        (httpx.Response(503), ServalUnreachable),
        (httpx.Response(429), ServalUnreachable),
        (httpx.Response(200, json=[]), ServalMisbehaved),
    ],
)
async def test_an_identity_provider_that_gives_no_token_is_told_apart(
    answer: httpx.Response, error: type[OperatorError]
) -> None:
    with pytest.raises(error):
        await client(Script(answer), ClientCredentialsAuth(CREDENTIALS)).engines()


def test_no_repr_shows_a_secret() -> None:
    assert "hush" not in repr(CREDENTIALS)
    assert "serval_key" not in repr(ApiKeyAuth("serval_key"))


@pytest.mark.parametrize(
    "key", ["first-secret\nsecond", "first-secret\x00", "first-s\u00e9cret", " first-secret"]
)
def test_a_key_that_no_header_can_hold_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(ServalRefusedCredentials) as refused:
        ApiKeyAuth(key)
    assert "first" not in str(refused.value)


async def test_a_token_that_no_header_can_hold_is_refused_without_being_told() -> None:
    script = Script(httpx.Response(200, json={"access_token": "stolen\nX-Other: 1"}))
    given = ClientCredentials("https://idp.example/token", "id", "secret")
    async with client(script, ClientCredentialsAuth(given)) as serval:
        with pytest.raises(ServalMisbehaved) as refused:
            await serval.engines()
    assert "stolen" not in str(refused.value)


async def test_the_words_of_a_request_that_could_not_be_written_are_not_repeated() -> None:
    script = Script(httpx.LocalProtocolError("Illegal header value b'a-key'"))
    async with client(script) as serval:
        with pytest.raises(OperatorError) as refused:
            await serval.engines()
    assert "a-key" not in str(refused.value)


class Endless(httpx.AsyncByteStream):
    """A body that goes on as long as somebody reads it."""

    read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.read += 1 << 20
            yield b"[" * (1 << 20)
            await asyncio.sleep(0)


async def test_an_answer_without_an_end_is_given_up_with_little_of_it_read() -> None:
    body = Endless()
    async with client(Script(httpx.Response(200, stream=body))) as serval:
        with pytest.raises(ServalMisbehaved, match="more than"):
            await serval.engines()
    assert body.read <= MOST_BYTES + (2 << 20)


async def test_a_token_without_an_end_or_packed_is_refused_and_a_streamed_one_is_taken() -> None:
    body = Endless()
    script = Script(httpx.Response(200, stream=body))
    async with client(script, ClientCredentialsAuth(CREDENTIALS)) as serval:
        with pytest.raises(ServalMisbehaved, match="more than"):
            await serval.engines()
    assert body.read <= 3 << 20
    packed = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Endless())
    async with client(Script(packed), ClientCredentialsAuth(CREDENTIALS)) as serval:
        with pytest.raises(ServalMisbehaved, match="packed by 'gzip'"):
            await serval.engines()
    streamed = httpx.Response(200, stream=Blocks(b'{"access_token": ', b'"first"}'))
    script = Script(streamed, httpx.Response(200, json=[]))
    async with client(script, ClientCredentialsAuth(CREDENTIALS)) as serval:
        assert await serval.engines() == []
    assert script.requests[1].headers["Authorization"] == "Bearer first"


class Blocks(httpx.AsyncByteStream):
    """A body that comes in pieces, and once."""

    def __init__(self, *blocks: bytes) -> None:
        self._blocks = blocks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for block in self._blocks:
            yield block


class Dripping(Endless):
    """A byte now and then, for ever."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)


async def test_an_answer_that_drips_for_ever_has_a_limit_as_a_whole() -> None:
    script = Script(httpx.Response(200, stream=Dripping()))
    limits = Timeouts(whole=0.2)
    transport = httpx.MockTransport(script)
    async with ServalClient("https://serval.example", ApiKeyAuth("key"), limits, transport) as serval:
        with pytest.raises(ServalUnreachable, match="no end"):
            await serval.engines()
