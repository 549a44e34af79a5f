"""HTTP handlers for engines, engine types and model downloads."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.serval import languages, operations
from tests.support.serval.access import CREATE, DELETE, READ, UPDATE
from tests.support.serval.archives import Download
from tests.support.serval.backend import Backend, Body
from tests.support.serval.clock import TICKS_PER_SECOND, Ticks
from tests.support.serval.domain import Engine, EngineType
from tests.support.serval.errors import Crashed, NotFound, NotSupported, RuleBroken
from tests.support.serval.rendering import PREFIX, Json, download_json, engine_json, engine_path
from tests.support.serval.responses import created, done, ok

BASE = f"{PREFIX}/translation"
ECHO_URL = "https://example.com/model"


class EngineHandlers:
    """Engines of the caller."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        one = f"{BASE}/engines/{{id}}"
        kind = f"{BASE}/engine-types/{{type}}"
        return [
            Route(f"{BASE}/engines", self.list_engines, methods=["GET"]),
            Route(f"{BASE}/engines", self.create, methods=["POST"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.patch, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/model-download-url", self.download, methods=["GET"]),
            Route(f"{kind}/queues", self.queue, methods=["GET"]),
            Route(f"{kind}/languages/{{tag}}", self.language, methods=["GET"]),
        ]

    async def list_engines(self, request: Request) -> Response:
        caller = self._backend.caller(request, READ)
        engines = operations.engines_of(self._backend.world, caller.owner)
        length = self._backend.faults.take_list_length()
        return ok([self._json(engine) for engine in engines[:length]])

    async def create(self, request: Request) -> Response:
        caller = self._backend.caller(request, CREATE)
        body = await Body.of(request)
        body.need("sourceLanguage", "targetLanguage", "type")
        new = operations.NewEngine(
            source_language=body.text("sourceLanguage") or "",
            target_language=body.text("targetLanguage") or "",
            type=EngineType.parse(body.text("type") or ""),
            name=body.text("name"),
            is_model_persisted=body.flag("isModelPersisted"),
        )
        engine, now = operations.create_engine(self._backend.world, caller.owner, new)
        return created(engine_json(engine, is_building=False, created=now), engine_path(engine.id))

    async def get(self, request: Request) -> Response:
        return ok(self._json(self._engine(request, READ)))

    async def patch(self, request: Request) -> Response:
        caller = self._backend.caller(request, UPDATE)
        body = await Body.of(request)
        world = self._backend.world
        engine = operations.owned_engine(world, caller.owner, request.path_params["id"])
        operations.change_languages(world, engine, body.text("sourceLanguage"), body.text("targetLanguage"))
        return done()

    async def delete(self, request: Request) -> Response:
        operations.delete_engine(self._backend.world, self._engine(request, DELETE))
        return done()

    async def download(self, request: Request) -> Response:
        """404 before the first build; then by type: echo constant, smt 405, nmt by persistence, counter, object."""
        engine = self._engine(request, READ)
        if engine.model_revision == 0:
            raise NotFound("no model yet")
        if engine.type is EngineType.ECHO:
            return ok(download_json(self._echo_download()))
        return ok(download_json(await asyncio.to_thread(self._nmt_download, engine)))

    async def queue(self, request: Request) -> Response:
        self._backend.caller(request, READ)
        kind = _known_type(request)
        return ok({"size": operations.queue_size(self._backend.world, kind), "engineType": kind.value})

    async def language(self, request: Request) -> Response:
        self._backend.caller(request, READ)
        kind, tag = _known_type(request), request.path_params["tag"]
        match kind:
            case EngineType.SMT_TRANSFER:
                native, code = True, tag
            case EngineType.ECHO:
                native, code = True, f"{tag}_echo"
            case EngineType.NMT:
                try:
                    resolved = languages.resolve(tag)
                except languages.InvalidTag as error:
                    raise RuleBroken(str(error)) from None
                native = resolved.support is languages.Support.LANGUAGE_AND_SCRIPT
                code = resolved.code
        return ok({"engineType": kind.value, "isNative": native, "internalCode": code})

    def _engine(self, request: Request, scope: str) -> Engine:
        caller = self._backend.caller(request, scope)
        return operations.owned_engine(self._backend.world, caller.owner, request.path_params["id"])

    def _json(self, engine: Engine) -> Json:
        return engine_json(engine, is_building=self._backend.world.is_building(engine.id))

    def _nmt_download(self, engine: Engine) -> Download:
        archives = self._backend.archives
        if engine.type is not EngineType.NMT or not engine.is_model_persisted or archives is None:
            raise NotSupported("no model to download")
        if engine.machine_revision == 0:
            raise RuleBroken("The model has not been built.")
        if not archives.exists(engine.id, engine.machine_revision):
            raise Crashed("the model file is missing")
        lifetime = self._backend.settings.presigned_lifetime
        return archives.download(engine.id, engine.machine_revision, lifetime)

    def _echo_download(self) -> Download:
        lifetime = self._backend.settings.presigned_lifetime
        expires = self._backend.world.clock.now() + round(lifetime * TICKS_PER_SECOND)
        return Download(ECHO_URL, 1, Ticks(expires))


def _known_type(request: Request) -> EngineType:
    try:
        return EngineType.parse(request.path_params["type"])
    except RuleBroken as error:
        raise NotFound(str(error)) from None
