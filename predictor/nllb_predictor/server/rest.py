"""REST: routes of KServe v1 and v2, health and metrics, on one small ASGI app.

The SDK's own routes are not used: they answer 422 and 500 to malformed tensors, say ready with no model, and drop
`properties` from the metadata. Every route is five lines; every error leaves through one handler.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from nllb_predictor.errors import BadRequest, NotReady, PayloadTooLarge, UnknownModel
from nllb_predictor.server import metrics, openapi
from nllb_predictor.server.bodies import Bodies
from nllb_predictor.server.calls import Call
from nllb_predictor.server.faults import Fault, fault_of
from nllb_predictor.server.lifecycle import Lifecycle
from nllb_predictor.server.model import LARGE, Answered, Asked, TruthfulDataPlane, computed
from nllb_predictor.server.wire import rest_v1, rest_v2
from nllb_predictor.server.wire.tensors import REQUEST_ID, caller, request_id

Handler = Callable[[Request], Awaitable[Response]]


class RestApi:
    """The routes of one process."""

    def __init__(
        self, plane: TruthfulDataPlane, lifecycle: Lifecycle, max_bytes: int, bodies: Bodies
    ) -> None:
        self._plane = plane
        self._lifecycle = lifecycle
        self._max_bytes = max_bytes
        self._bodies = bodies

    def app(self) -> Starlette:
        """The ASGI app."""
        get, post = self._get, self._post
        model = "/v2/models/{name}"
        version = model + "/versions/{version}"
        routes = [
            get("/", self.ready),
            get("/metrics", self.metrics),
            get("/openapi.json", self.openapi),
            get("/v2", self.server_metadata),
            get("/v2/health/live", self.live),
            get("/v2/health/ready", self.ready),
            get("/v2/models", self.models),
            *(get(path, self.model_metadata) for path in (model, version)),
            *(get(path + "/ready", self.model_ready) for path in (model, version)),
            get(model + "/debug/unknown", self.unknown),
            *(post(path + "/infer", self.infer) for path in (model, version)),
            *(get(path + "/config", self.configuration) for path in (model, version)),
            *(get(path + "/stats", self.statistics) for path in (model, version)),
            get("/v2/models/stats", self.statistics),
            post("/v2/repository/index", self.index),
            get("/v1/models", self.models),
            get("/v1/models/{name}", self.model_ready),
            post("/v1/models/{name}:predict", self.predict),
        ]
        handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _any_error}
        return Starlette(routes=routes, exception_handlers=handlers)

    @staticmethod
    def _get(path: str, handler: Handler) -> Route:
        return Route(path, _told(handler), methods=["GET"])

    @staticmethod
    def _post(path: str, handler: Handler) -> Route:
        return Route(path, _told(handler), methods=["POST"])

    async def live(self, request: Request) -> Response:
        return answer({"live": True})

    async def ready(self, request: Request) -> Response:
        """Also for `/`, which some probes use."""
        if not self._lifecycle.ready:
            raise NotReady(f"Not ready: {self._lifecycle.state.value}.")
        return answer({"ready": True})

    async def models(self, request: Request) -> Response:
        return answer({"models": list(self._plane.model_registry.get_models())})

    async def server_metadata(self, request: Request) -> Response:
        return answer(self._plane.metadata())

    async def model_metadata(self, request: Request) -> Response:
        self._plane.require(request.path_params["name"], request.path_params.get("version"))
        return answer(await self._plane.model_metadata(request.path_params["name"]))

    async def model_ready(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._plane.require(name, request.path_params.get("version"))
        if not await self._plane.model_ready(name):
            raise NotReady(f"The model is not ready: {self._lifecycle.state.value}.")
        return answer({"name": name, "ready": True})

    async def unknown(self, request: Request) -> Response:
        """Characters that the model cannot read, with their counts since it was loaded."""
        self._plane.require(request.path_params["name"])
        loaded = self._lifecycle.loaded
        if loaded is None:
            raise NotReady(f"The model is not ready: {self._lifecycle.state.value}.")
        return answer(loaded.service.unknown.report())

    async def metrics(self, request: Request) -> Response:
        metrics.observe(self._lifecycle)
        return Response(generate_latest(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, request: Request) -> Response:
        return Response(openapi.document(), media_type="application/json")

    async def infer(self, request: Request) -> Response:
        with self._plane.calls.watched("v2", _id(request), request.headers) as seen:
            self._plane.require(request.path_params["name"], request.path_params.get("version"))
            data = await self._body(request)
            call = await computed(len(data) > LARGE, lambda: rest_v2.decode(data, request.headers))
            call = replace(call, caller=caller(request.headers))
            answered = await self._translated(request, Asked(call), seen)
            body, headers = await computed(
                answered.large, lambda: rest_v2.encode(answered.answer, answered.asks)
            )
            return self._bounded(body, headers)

    async def predict(self, request: Request) -> Response:
        with self._plane.calls.watched("v1", _id(request), request.headers) as seen:
            self._plane.require(request.path_params["name"])
            data = await self._body(request)
            call, rows = await computed(len(data) > LARGE, lambda: rest_v1.decode(data))
            call = replace(call, caller=caller(request.headers))
            answered = await self._translated(request, Asked(call, rows), seen)
            body = await computed(answered.large, lambda: rest_v1.encode(answered.answer.outputs, call))
            return self._bounded(body, {"content-type": "application/json"})

    async def _translated(self, request: Request, asked: Asked, seen: Call) -> Answered:
        """The answer, unless the caller leaves: then its work is dropped."""
        name = request.path_params["name"]
        work = asyncio.ensure_future(self._plane.translate(name, asked, seen))
        left = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((work, left), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientDisconnect
            return work.result()
        finally:
            work.cancel()
            left.cancel()

    async def statistics(self, request: Request) -> Response:
        return answer({"model_stats": self._plane.statistics(request.path_params.get("name", ""))})

    async def configuration(self, request: Request) -> Response:
        self._plane.require(request.path_params["name"], request.path_params.get("version"))
        return answer(self._plane.configuration(request.path_params["name"]))

    async def index(self, request: Request) -> Response:
        body = await self._body(request)
        asked = rest_v2.json_object(body) if body else {}
        return answer(self._plane.index(asked.get("ready") is True))

    async def _body(self, request: Request) -> bytes:
        """The whole body, unpacked. Raises PayloadTooLarge as soon as it is known to be, and BodyTooSlow."""
        if int(request.headers.get("content-length") or 0) > self._max_bytes:
            raise self._too_large("request")
        body = bytearray()
        async with self._bodies.limited():
            async for chunk in request.stream():
                body += chunk
                if len(body) > self._max_bytes:
                    raise self._too_large("request")
        return rest_v2.unpacked(bytes(body), request.headers.get("content-encoding", ""), self._max_bytes)

    def _bounded(self, body: bytes, headers: dict[str, str]) -> Response:
        if len(body) > self._max_bytes:
            raise self._too_large("answer")
        return Response(body, headers=headers)

    def _too_large(self, what: str) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"The {what} has more than {self._max_bytes} bytes.",
            hint="Send fewer segments per call, or raise --max-message-bytes.",
        )


async def _left(request: Request) -> None:
    """Returns when the caller has closed its connection; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _id(request: Request) -> str:
    """The request's id, chosen once."""
    found: str = request.state.request_id
    return found


def answer(value: Any) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(value), media_type="application/json")


def _told(handler: Handler) -> Handler:
    """The handler with every error told as JSON; inside the routes, so that the server logs no second traceback."""

    async def told(request: Request) -> Response:
        request.state.request_id = request_id(request.headers)
        try:
            response = await handler(request)
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception as error:
            response = _response(fault_of(error))
        response.headers[REQUEST_ID] = request.state.request_id
        return response

    return told


def _response(fault: Fault) -> Response:
    return Response(
        orjson.dumps(fault.body()),
        status_code=fault.status,
        headers=fault.headers(),
        media_type="application/json",
    )


async def _http_error(request: Request, error: HTTPException) -> Response:
    """A path or method that does not exist."""
    path = request.url.path[:120]
    if error.status_code == 405:
        fault = Fault(405, "UNIMPLEMENTED", BadRequest.reason, f"{request.method} is not possible on {path}.")
    else:
        fault = Fault(error.status_code, "NOT_FOUND", UnknownModel.reason, f"There is nothing at {path}.")
    response = _response(fault)
    response.headers.update(error.headers or {})
    return response


async def _any_error(request: Request, error: Exception) -> Response:
    return _response(fault_of(error))
