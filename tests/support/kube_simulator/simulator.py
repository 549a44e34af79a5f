"""The simulator: one task that looks at a namespace again and again and lets both sides act."""

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import httpx

from tests.support.kube_simulator.api import PODS, REVISIONS, SERVICES, Api
from tests.support.kube_simulator.converter import Converter, Store
from tests.support.kube_simulator.knative import Knative
from tests.support.kube_simulator.kubelet import Kubelet
from tests.support.kube_simulator.world import World


class KubeSimulator:
    """Use as an async context manager."""

    def __init__(self, kubeconfig: Path, namespace: str, store: Store, world: World | None = None) -> None:
        self.world = world or World()
        self._api = Api(kubeconfig, namespace)
        self._kubelet = Kubelet(self._api, self.world, Converter(store))
        self.knative = Knative(self._api, self.world)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._kubelet.close()
        await self._api.__aexit__()

    def check(self) -> None:
        """Raise what went wrong inside: a broken double must fail the test, not slow it down."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
        if self._kubelet.failures:
            raise self._kubelet.failures[0]

    async def _run(self) -> None:
        while True:
            try:
                await self._kubelet.beat()
                pods = await self._api.list(PODS)
                await self._kubelet.tick(pods)
                await self.knative.tick(await self._api.list(SERVICES), await self._api.list(REVISIONS), pods)
            except httpx.TransportError:
                pass  # The API server is away, as a test wished; controllers wait for it too.
            await asyncio.sleep(self.world.tick)
