"""Three small pages for Kubernetes and Prometheus: `/livez`, `/readyz`, `/metrics`.

Live means that the event loop turns and, while leading, that the loops have not been silent for long. Ready means
started, leading or not: a standby that was unready would block every rolling update.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import generate_latest

from engine_operator import metrics

LAG_EVERY = 1.0
"""Seconds between two measurements of the event loop's lag."""


@dataclass
class Pulse:
    """Signs of life of the loops, by name. `limit` seconds of silence mean that one is stuck."""

    limit: float = 900.0
    clock: Callable[[], float] = time.monotonic
    started: bool = False
    _beats: dict[str, float] = field(default_factory=dict)

    def beat(self, loop: str) -> None:
        """The loop did a round, or waits on purpose."""
        self._beats[loop] = self.clock()

    def forget(self, loop: str) -> None:
        """The loop ended on purpose."""
        self._beats.pop(loop, None)

    def stuck(self) -> list[str]:
        """Loops that have been silent for longer than `limit`."""
        now = self.clock()
        return sorted(name for name, beat in self._beats.items() if now - beat > self.limit)


class HealthServer:
    """Serves the pages until closed."""

    def __init__(self, pulse: Pulse, host: str, port: int) -> None:
        self._pulse = pulse
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._lag: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen; returns the port (of use where 0 was asked for)."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        self._lag = asyncio.create_task(_measure_lag())
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """Stop listening."""
        if self._lag is not None:
            self._lag.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        stuck = self._pulse.stuck()
        if stuck:
            return web.Response(status=503, text=f"silent: {', '.join(stuck)}\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self._pulse.started:
            return web.Response(status=503, text="starting\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.REGISTRY), content_type="text/plain")


async def _measure_lag() -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(LAG_EVERY)
        metrics.LOOP_LAG.set(max(0.0, time.monotonic() - before - LAG_EVERY))
