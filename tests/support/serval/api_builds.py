"""HTTP handlers for builds, the waiting ones among them."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.serval import clock, operations, polls
from tests.support.serval.access import READ, UPDATE
from tests.support.serval.api_engines import BASE
from tests.support.serval.backend import Backend, Body
from tests.support.serval.domain import Build, Engine
from tests.support.serval.domain import Request as BuildRequest
from tests.support.serval.errors import Cut, Invalid
from tests.support.serval.rendering import Json, build_json
from tests.support.serval.responses import created, no_content, ok

T = TypeVar("T")


class BuildHandlers:
    """Builds of the caller's engines."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._world = backend.world

    def routes(self) -> list[Route]:
        engine = f"{BASE}/engines/{{id}}"
        return [
            Route(f"{BASE}/builds", self.list_all, methods=["GET"]),
            Route(f"{BASE}/builds/next-finished", self.next_finished, methods=["GET"]),
            Route(f"{engine}/builds", self.list_builds, methods=["GET"]),
            Route(f"{engine}/builds", self.start, methods=["POST"]),
            Route(f"{engine}/builds/{{build}}", self.get, methods=["GET"]),
            Route(f"{engine}/current-build", self.current, methods=["GET"]),
            Route(f"{engine}/current-build/cancel", self.cancel, methods=["POST"]),
        ]

    async def list_all(self, request: Request) -> Response:
        caller = self._backend.caller(request, READ)
        text = request.query_params.get("created-after")
        try:
            after = clock.read(text) if text is not None else None
        except ValueError:
            raise Invalid(**{"created-after": f"The value '{text}' is not valid."}) from None
        return ok([self._json(b) for b in operations.builds_of_owner(self._world, caller.owner, after)])

    async def next_finished(self, request: Request) -> Response:
        caller = self._backend.caller(request, READ)
        after = request.query_params.get("finished-after")
        timeout = self._backend.settings.long_poll_timeout
        try:
            build = await _unless_gone(
                request, polls.next_finished(self._world, caller.owner, after, timeout)
            )
        finally:
            await asyncio.to_thread(self._play_gap_actions)
        return ok(self._json(build))

    async def list_builds(self, request: Request) -> Response:
        engine = self._engine(request, READ)
        return ok([self._json(build) for build in operations.builds_of_engine(self._world, engine)])

    async def start(self, request: Request) -> Response:
        caller = self._backend.caller(request, UPDATE)
        body = await Body.of(request, required=False)
        wanted = BuildRequest(
            name=body.text("name"),
            train_on=body.items("trainOn"),
            pretranslate=body.items("pretranslate"),
            options=body.members("options"),
        )
        engine = operations.owned_engine(self._world, caller.owner, request.path_params["id"])
        build, now = operations.start_build(self._world, engine, wanted)
        shown = build_json(build, self._backend.settings.deployment_version, created=now)
        return created(shown, str(shown["url"]))

    async def get(self, request: Request) -> Response:
        engine = self._engine(request, READ)
        build_id, revision = request.path_params["build"], _min_revision(request)
        if revision is None:
            return ok(self._json(operations.build_of_engine(self._world, engine, build_id)))
        query = polls.BuildQuery(engine.id, build_id, revision)
        timeout = self._backend.settings.long_poll_timeout
        build = await _unless_gone(request, polls.build_at(self._world, query, timeout))
        return ok(self._json(build))

    async def current(self, request: Request) -> Response:
        engine = self._engine(request, READ)
        revision = _min_revision(request)
        if revision is None:
            build = self._world.current_build(engine.id)
            return no_content() if build is None else ok(self._json(build))
        timeout = self._backend.settings.long_poll_timeout
        waiting = polls.current_build_at(self._world, engine.id, revision, timeout)
        found = await _unless_gone(request, waiting)
        return no_content() if isinstance(found, polls.Nothing) else ok(self._json(found))

    async def cancel(self, request: Request) -> Response:
        build = operations.cancel_build(self._world, self._engine(request, UPDATE))
        return no_content() if build is None else ok(self._json(build))

    def _engine(self, request: Request, scope: str) -> Engine:
        caller = self._backend.caller(request, scope)
        return operations.owned_engine(self._world, caller.owner, request.path_params["id"])

    def _json(self, build: Build) -> Json:
        return build_json(build, self._backend.settings.deployment_version)

    def _play_gap_actions(self) -> None:
        for action in self._backend.faults.take_gap_actions():
            action()


def _min_revision(request: Request) -> int | None:
    text = request.query_params.get("min-revision", request.query_params.get("minRevision"))
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Invalid(**{"min-revision": f"The value '{text}' is not valid."}) from None


async def _unless_gone(request: Request, waiting: Awaitable[T]) -> T:
    """The result, or Cut as soon as the caller leaves: a poll must not wait for nobody."""
    result = asyncio.ensure_future(waiting)
    left = asyncio.ensure_future(_caller_leaves(request))
    try:
        await asyncio.wait({result, left}, return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return result.result()
        raise Cut("the caller left")
    finally:
        for task in (result, left):
            task.cancel()
        await asyncio.gather(result, left, return_exceptions=True)


async def _caller_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
