"""The simulator: tasks that look at a namespace again and again and let both sides act."""

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import httpx

from tests.support.kube_simulator.api import PODS, REVISIONS, SERVICES, Api
from tests.support.kube_simulator.converter import Converter, Store
from tests.support.kube_simulator.followed import Followed
from tests.support.kube_simulator.knative import Knative
from tests.support.kube_simulator.kubelet import Kubelet
from tests.support.kube_simulator.world import World

BEAT = 1.0
"""Seconds between two looks at whether the node's next heartbeat is due."""


class KubeSimulator:
    """Use as an async context manager. `large` watches instead of listing: for hundreds of engines."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        store: Store,
        world: World | None = None,
        large: bool = False,
    ) -> None:
        self.world = world or World()
        self._api = Followed(kubeconfig, namespace) if large else Api(kubeconfig, namespace)
        self.converter = Converter(store)
        self._kubelet = Kubelet(self._api, self.world, self.converter)
        self.knative = Knative(self._api, self.world)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        # The heartbeat goes on beside whatever keeps the other loop busy: pods of a silent node are taken for lost.
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._run())]
        if isinstance(self._api, Followed):
            self._tasks += [
                asyncio.create_task(self._api.follow(kind)) for kind in (PODS, SERVICES, REVISIONS)
            ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._kubelet.close()
        await self._api.__aexit__()

    async def rest(self) -> None:
        """No controller and no kubelet acts from now on; the node stays alive, and with it what runs on it."""
        acting = self._tasks[1]
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)

    def check(self) -> None:
        """Raise what went wrong inside: a broken double must fail the test, not slow it down."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        if self._kubelet.failures:
            raise self._kubelet.failures[0]

    async def _beat(self) -> None:
        while True:
            with contextlib.suppress(httpx.TransportError):
                await self._kubelet.beat()
            await asyncio.sleep(BEAT)

    async def _run(self) -> None:
        while True:
            try:
                pods = await self._api.list(PODS)
                await self._kubelet.tick(pods)
                await self.knative.tick(await self._api.list(SERVICES), await self._api.list(REVISIONS), pods)
            except httpx.TransportError:
                pass  # The API server is away, as a test wished; controllers wait for it too.
            await asyncio.sleep(self.world.tick)
