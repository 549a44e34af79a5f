"""The control paths: `POST /_standin/<group>/<verb>` with a JSON object of arguments, `GET /_standin` for the list."""

import asyncio
import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.serval.errors import ApiError, Invalid
from tests.support.serval.gate import ADMIN_PREFIX
from tests.support.serval.rendering import dumps
from tests.support.serval.responses import JSON, ok
from tests.support.serval.verbs import VERBS, Verb

if TYPE_CHECKING:
    from tests.support.serval.standin import ServalStandIn


class AdminHandlers:
    """Runs verbs; refusals come as `{"error": …}` with 400, so that the command line can print them."""

    def __init__(self, serval: "ServalStandIn") -> None:
        self._serval = serval
        self._verbs: dict[tuple[str, str], Verb] = {(verb.group, verb.name): verb for verb in VERBS}

    def routes(self) -> list[Route]:
        return [
            Route(ADMIN_PREFIX, self.list_verbs, methods=["GET"]),
            Route(f"{ADMIN_PREFIX}/{{group}}/{{name}}", self.run, methods=["POST"]),
        ]

    async def list_verbs(self, _request: Request) -> Response:
        return ok(
            [
                {
                    "verb": f"{v.group} {v.name}",
                    "help": v.help,
                    "arguments": {p.name: p.help for p in v.params},
                }
                for v in VERBS
            ]
        )

    async def run(self, request: Request) -> Response:
        verb = self._verbs.get((request.path_params["group"], request.path_params["name"]))
        if verb is None:
            return _refusal("no such verb; GET /_standin lists them", 404)
        try:
            given = json.loads(await request.body() or b"{}")
            if not isinstance(given, dict):
                raise Invalid(body="an object is expected")
            result = await asyncio.to_thread(verb.run, self._serval, verb.checked(given))
        except (ApiError, ValueError, OSError, BotoCoreError, ClientError) as error:
            return _refusal(f"{type(error).__name__}: {error}", 400)
        return ok(result if result is not None else {})


def _refusal(message: str, status: int) -> Response:
    return Response(dumps({"error": message}), status_code=status, media_type=JSON)
