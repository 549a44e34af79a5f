"""The whole serving process but for the model, on the test's own event loop: real servers, real scheduler, and an
engine that shouts and can be held. Functions of the server can so be replaced while it serves.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import httpx

from nllb_predictor.engine.domain import How, Hypothesis, Segment
from nllb_predictor.engine.scheduler import Admission, Limits, Scheduler
from nllb_predictor.pipeline.answer import Alternative, Translation, Warned, WarningKind
from nllb_predictor.pipeline.request import TranslateRequest
from nllb_predictor.server import app
from nllb_predictor.server.lifecycle import Lifecycle, PhaseName
from nllb_predictor.server.sdk import messages, services
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.unknown import Tally
from tests.support.waiting import eventually

HELD_SECONDS = 10
"""Longest time that the engine is held: whatever blocks on it fails, but does not hang."""


@dataclass
class Shouting:
    """Answers with upper case, held while the gate is closed."""

    gate: threading.Event = field(default_factory=threading.Event)
    running: int = 0
    sizes: list[int] = field(default_factory=list)

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        self.running += 1
        opened = self.gate.wait(HELD_SECONDS)
        self.running -= 1
        assert opened, "held too long"
        self.sizes.append(len(segments))
        return [(Hypothesis((each.target, each.tokens[0].upper()), -1.0, True),) for each in segments]


class Loaded:
    """Stands for a loaded model: every text is one segment of one token."""

    version = "3"

    def __init__(self, engine: Shouting) -> None:
        self.scheduler = Scheduler(engine, Limits(queue=4, batch=2))
        self.service = self
        self.unknown = Tally()

    async def translate(self, request: TranslateRequest) -> list[Translation]:
        admission = Admission(len(request.asks), request.timeout, request.priority, request.caller)
        with self.scheduler.admit(admission) as ticket:
            segments = [Segment((ask.text,), "spa_Latn") for ask in request.asks]
            found = await ticket.run(segments, request.options.search)
        warned = (Warned(WarningKind.LOOP, "as every shout", 0, 1),)
        return [Translation((Alternative(row[0].tokens[1], row[0].score),), warned) for row in found]

    def properties(self) -> dict[str, str]:
        return {"device": "none"}

    def close(self) -> None:
        """Nothing of its own."""


class _Loading:
    """A loading thread that has nothing to tell."""

    def when_ended(self, callback: Any) -> None:
        del callback


@dataclass
class InProcess:
    """A process that serves."""

    server: app.NllbServer
    lifecycle: Lifecycle
    engine: Shouting
    serving: "asyncio.Task[None]"
    ports: app.Ports
    client: httpx.AsyncClient
    channel: Any

    @property
    def stub(self) -> Any:
        return services.GRPCInferenceServiceStub(self.channel)

    async def infer(self, *texts: str, name: str = "nllb", **headers: str) -> httpx.Response:
        """One REST call."""
        tensor = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": list(texts)}
        path = f"/v2/models/{name}/infer"
        return await self.client.post(path, json={"inputs": [tensor]}, headers=headers)

    def request(self, *texts: str, name: str = "nllb") -> Any:
        """One gRPC request."""
        request = messages.ModelInferRequest(model_name=name)
        tensor = request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
        tensor.contents.bytes_contents.extend(text.encode() for text in texts)
        return request


@asynccontextmanager
async def in_process(loaded: bool = True, **settings: Any) -> AsyncIterator[InProcess]:
    """Serve while the block runs; the model is there unless `loaded` is false."""
    lifecycle, engine = Lifecycle(), Shouting()
    engine.gate.set()
    model = Loaded(engine)
    if loaded:
        lifecycle.succeed(cast("Any", model))
    given: dict[str, Any] = {"host": "127.0.0.1", "rest_port": 0, "grpc_port": 0, "lame_duck_s": 0.0}
    chosen = ServeSettings(**given | settings)
    server = app.NllbServer(chosen, lifecycle, cast("Any", _Loading()))
    serving = asyncio.create_task(server._main())
    await eventually(lambda: PhaseName.PYTHON.value in lifecycle.phases or serving.done())
    ports = server.ports
    assert ports is not None
    limits = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.rest}", timeout=60) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{ports.grpc}", options=limits) as channel,
    ):
        yield InProcess(server, lifecycle, engine, serving, ports, client, channel)
        engine.gate.set()
    server._stop.set()
    await serving
    model.scheduler.close()
    assert await asyncio.to_thread(model.scheduler.join, 20)
