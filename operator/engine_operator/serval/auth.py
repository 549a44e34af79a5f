"""How the operator proves to Serval who it is: an API key, or the client-credentials grant.

One `httpx.Auth` each, so that renewing a token goes through the same transport as everything else. Keys and tokens
never appear in a `repr` or a log line.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field

import httpx

from engine_operator.errors import ServalMisbehaved, ServalRefusedCredentials, ServalUnreachable
from engine_operator.headers import fits_header
from engine_operator.serval.bodies import NO_ANSWER, bounded

_LARGEST_TOKEN = 1_000_000
"""Bytes of an identity provider's answer."""


class ApiKeyAuth(httpx.Auth):
    """Header `X-API-Key`; Serval then looks at nothing else."""

    def __init__(self, key: str) -> None:
        """Raises ServalRefusedCredentials for what no header can hold, such as a key of two lines."""
        if not fits_header(key):
            raise ServalRefusedCredentials("the API key has line breaks or other characters that no key has")
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-API-Key"] = self._key
        yield request


@dataclass(frozen=True)
class ClientCredentials:
    """What the client-credentials grant needs. `token_url` is the identity provider's, not Serval's."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    audience: str = "https://serval-api.org/"


class ClientCredentialsAuth(httpx.Auth):
    """Bearer token, fetched at first use, renewed at 80 % of its life and once more after a 401."""

    LONGEST_LIFE = 20 * 60.0
    """Seconds. Renewed at least this often, since a revoked grant would otherwise be noticed late."""

    def __init__(self, credentials: ClientCredentials, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0
        self._renewing = asyncio.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        fresh = False
        # Calls run side by side. Those that find the token too old, or refused, at the same time wait for one renewal.
        async with self._renewing:
            if not self._token or self._clock() >= self._renew_at:
                await self._accept((yield await self._ask()))
                fresh = True
        sent = self._token
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == 401 and not fresh:
            async with self._renewing:
                if self._token == sent:
                    await self._accept((yield await self._ask()))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    async def _ask(self) -> httpx.Request:
        given = self._credentials
        form = {
            "grant_type": "client_credentials",
            "client_id": given.client_id,
            "client_secret": given.client_secret,
            "audience": given.audience,
        }
        plain = {"Accept-Encoding": "identity"}
        request = httpx.Request("POST", given.token_url, data=form, headers=plain)
        await request.aread()
        return request

    async def _accept(self, response: httpx.Response) -> None:
        if response.status_code in (400, 401, 403):
            raise ServalRefusedCredentials(f"{self._credentials.token_url} answered {response.status_code}")
        if response.status_code != 200:
            kind = ServalUnreachable if response.status_code in NO_ANSWER else ServalMisbehaved
            raise kind(f"{self._credentials.token_url} answered {response.status_code}")
        try:
            body = json.loads(await bounded(response, _LARGEST_TOKEN))
            token, life = str(body["access_token"]), float(body.get("expires_in", self.LONGEST_LIFE))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ServalMisbehaved(f"{self._credentials.token_url} sent no access_token") from error
        if not fits_header(token):
            raise ServalMisbehaved(
                f"{self._credentials.token_url} sent an access_token that no header can hold"
            )
        self._token = token
        self._renew_at = self._clock() + min(0.8 * life, self.LONGEST_LIFE)
