"""HTTP handlers for the four interactive paths, which nmt engines refuse."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.serval import interactive, operations
from tests.support.serval.access import READ, UPDATE
from tests.support.serval.api_engines import BASE
from tests.support.serval.backend import Backend, Body, read_segment
from tests.support.serval.domain import Engine, EngineType
from tests.support.serval.errors import Conflict, Crashed, Invalid, NotSupported
from tests.support.serval.responses import done, ok


class InteractiveHandlers:
    """Translation while a person types. Order: credential, scope, media type, form, engine, owner, 409, type."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        engine = f"{BASE}/engines/{{id}}"
        return [
            Route(f"{engine}/translate", self.translate, methods=["POST"]),
            Route(f"{engine}/translate/{{n}}", self.translate_n, methods=["POST"]),
            Route(f"{engine}/get-word-graph", self.word_graph, methods=["POST"]),
            Route(f"{engine}/train-segment", self.train_segment, methods=["POST"]),
        ]

    async def translate(self, request: Request) -> Response:
        owner = self._backend.caller(request, READ).owner
        segment = await read_segment(request)
        self._interactive_engine(request, owner)
        return ok(interactive.translation(segment))

    async def translate_n(self, request: Request) -> Response:
        """At most n results; these engines know one. n below 1 reaches the engine unchecked, as in Serval."""
        owner = self._backend.caller(request, READ).owner
        segment = await read_segment(request)
        if not request.path_params["n"].lstrip("-").isdecimal():
            raise Invalid(n=f"The value '{request.path_params['n']}' is not valid.")
        self._interactive_engine(request, owner)
        return ok([interactive.translation(segment)])

    async def word_graph(self, request: Request) -> Response:
        owner = self._backend.caller(request, READ).owner
        segment = await read_segment(request)
        engine = self._interactive_engine(request, owner)
        return ok(interactive.word_graph(engine.type, segment))

    async def train_segment(self, request: Request) -> Response:
        owner = self._backend.caller(request, UPDATE).owner
        body = await Body.of(request)
        body.need("sourceSegment", "targetSegment", "sentenceStart")
        for name in ("sourceSegment", "targetSegment"):
            body.text(name)
        body.flag("sentenceStart")
        self._interactive_engine(request, owner)
        return done()

    def _interactive_engine(self, request: Request, owner: str) -> Engine:
        engine = operations.owned_engine(self._backend.world, owner, request.path_params["id"])
        if engine.model_revision == 0:
            raise Conflict("not built yet")
        if engine.type is EngineType.NMT:
            raise NotSupported("nmt engines are not interactive")
        if engine.type is EngineType.SMT_TRANSFER and engine.machine_revision == 0:
            raise Crashed("not built inside Machine")
        return engine
