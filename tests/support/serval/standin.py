"""The stand-in as one object: all parts wired, a server that goes down and up.

with ServalStandIn(bucket=bucket) as serval:
    key = serval.add_key("ruth")
    engine = serval.add_engine(EngineSpec(owner="ruth"))
    serval.run_build(engine.id, archive=Path("model.tar.gz"))
    httpx.get(f"{serval.url}/api/v1/translation/engines", headers={"X-API-Key": key})
"""

import re
from dataclasses import replace
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from tests.support.serval.access import Access
from tests.support.serval.admin import AdminHandlers
from tests.support.serval.api_accounts import AccountHandlers
from tests.support.serval.api_builds import BuildHandlers
from tests.support.serval.api_engines import EngineHandlers
from tests.support.serval.api_interactive import InteractiveHandlers
from tests.support.serval.archives import Bucket, ModelArchives
from tests.support.serval.backend import Backend
from tests.support.serval.clock import Clock
from tests.support.serval.control import Control
from tests.support.serval.errors import ApiError
from tests.support.serval.gate import Gate
from tests.support.serval.responses import from_error
from tests.support.serval.server import Server
from tests.support.serval.settings import Settings
from tests.support.serval.world import World


class ServalStandIn(Control):
    """A Serval that does what it is told. State lives in memory and outlives `down`."""

    def __init__(self, settings: Settings | None = None, bucket: Bucket | None = None) -> None:
        settings = settings or Settings()
        clock = Clock()
        world = World(settings, clock)
        archives = ModelArchives(bucket, clock) if bucket is not None else None
        super().__init__(Backend(settings, world, Access(settings, clock, world.ids), archives))
        self._server = Server(settings.host, settings.port)
        self._gate = Gate(_application(self), self.backend, self._server.reset)

    @property
    def url(self) -> str:
        """Base URL without `/api/v1`; known once the server has been up."""
        return f"http://{self._server.host}:{self._server.port}"

    def up(self) -> None:
        """Listen, on the same port as before."""
        self._server.start(self._gate)
        self.backend.settings = replace(self.backend.settings, port=self._server.port)

    def down(self) -> None:
        """Refuse connections and cut the present ones; nothing is forgotten."""
        self._server.stop()

    def cut_polls(self, path: str = "next-finished|min-?revision") -> int:
        """Reset the connections of waiting requests; returns how many."""
        return self._gate.reset_in_flight(path)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()


def _application(control: ServalStandIn) -> Starlette:
    backend = control.backend
    routes: list[Route] = []
    for handlers in (AccountHandlers, EngineHandlers, BuildHandlers, InteractiveHandlers):
        routes += handlers(backend).routes()
    for route in routes:  # Serval's routes match without regard to case
        route.path_regex = re.compile(route.path_regex.pattern, re.IGNORECASE)
    return Starlette(
        routes=[*routes, *AdminHandlers(control).routes()],
        exception_handlers={ApiError: from_error, HTTPException: from_error},
    )
