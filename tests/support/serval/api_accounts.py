"""HTTP handlers for API keys, tokens and the server's status."""

import time
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.serval import clock
from tests.support.serval.access import ALL_SCOPES, KEY_SCOPES, ApiKey, Identity
from tests.support.serval.backend import Backend, Body
from tests.support.serval.clock import Ticks
from tests.support.serval.errors import Forbidden, Invalid, NotFound, RuleBroken
from tests.support.serval.rendering import PREFIX, key_json
from tests.support.serval.responses import created, done, ok


class AccountHandlers:
    """Keys can be managed with a token only; the status paths need little or nothing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        keys = f"{PREFIX}/api-keys"
        status = f"{PREFIX}/status"
        return [
            Route("/oauth/token", self.token, methods=["POST"]),
            Route(keys, self.list_keys, methods=["GET"]),
            Route(keys, self.create_key, methods=["POST"]),
            Route(f"{keys}/{{id}}", self.get_key, methods=["GET"]),
            Route(f"{keys}/{{id}}", self.delete_key, methods=["DELETE"]),
            Route(f"{status}/health", self.health, methods=["GET"]),
            Route(f"{status}/ping", self.ping, methods=["GET"]),
            Route(f"{status}/deployment-info", self.deployment_info, methods=["GET"]),
        ]

    async def token(self, request: Request) -> Response:
        """The client-credentials grant; takes a form or a JSON object, as the real authority does."""
        asked = await _form_or_json(request)
        if asked.get("grant_type") != "client_credentials":
            return JSONResponse({"error": "unsupported_grant_type"}, status_code=403)
        client = self._backend.access.client(asked.get("client_id", ""), asked.get("client_secret", ""))
        if client is None:
            return JSONResponse({"error": "access_denied"}, status_code=401)
        if asked.get("audience") != self._backend.settings.audience:
            return JSONResponse({"error": "access_denied"}, status_code=403)
        token = self._backend.access.token(client.owner, client.scopes)
        return JSONResponse(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": int(self._backend.settings.token_lifetime),
                "scope": " ".join(sorted(client.scopes)),
            }
        )

    async def list_keys(self, request: Request) -> Response:
        self._administrator(request, "read:api_keys")
        owner = request.query_params.get("clientId")
        keys = [k for k in self._backend.access.keys.values() if owner in (None, k.owner)]
        return ok([key_json(key) for key in keys])

    async def create_key(self, request: Request) -> Response:
        self._administrator(request, "create:api_keys")
        body = await Body.of(request)
        body.need("clientId", "name", "scopes")
        scopes = [str(scope) for scope in body.items("scopes") or []]
        refused = [s for s in scopes if s not in ALL_SCOPES or s in KEY_SCOPES]
        if refused:
            raise RuleBroken(f"Scopes not allowed: {', '.join(refused)}")
        owner, name = body.text("clientId") or "", body.text("name") or ""
        key, text = self._backend.access.add_key(owner, scopes, name, _expiry(body))
        return created(key_json(key, text), f"{PREFIX}/api-keys/{key.id}")

    async def get_key(self, request: Request) -> Response:
        self._administrator(request, "read:api_keys")
        return ok(key_json(self._key(request)))

    async def delete_key(self, request: Request) -> Response:
        self._administrator(request, "delete:api_keys")
        self._backend.access.revoke_key(self._key(request).id)
        return done()

    async def health(self, request: Request) -> Response:
        self._backend.caller(request, "read:status")
        results = {"Mongo": {"status": "Healthy", "duration": "00:00:00.0012345"}}
        return ok({"status": "Healthy", "totalDuration": self._uptime(), "results": results})

    async def ping(self, request: Request) -> Response:
        return ok({"status": "Healthy", "totalDuration": self._uptime(), "results": {}})

    async def deployment_info(self, request: Request) -> Response:
        version = self._backend.settings.deployment_version
        return ok({"deploymentVersion": version, "aspNetCoreEnvironment": "Production"})

    def _administrator(self, request: Request, scope: str) -> Identity:
        identity = self._backend.caller(request, scope)
        if identity.by_key:
            raise Forbidden("keys cannot manage keys")
        return identity

    def _key(self, request: Request) -> ApiKey:
        key = self._backend.access.keys.get(request.path_params["id"])
        if key is None:
            raise NotFound(request.path_params["id"])
        return key

    def _uptime(self) -> str:
        return time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._backend.started))


def _expiry(body: Body) -> Ticks | None:
    text = body.text("expiresAt")
    try:
        return clock.read(text) if text is not None else None
    except ValueError:
        raise Invalid(expiresAt=f"The value '{text}' is not valid.") from None


async def _form_or_json(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").startswith("application/json"):
        return {name: str(value) for name, value in (await Body.of(request)).values.items()}
    return dict(parse_qsl((await request.body()).decode()))
