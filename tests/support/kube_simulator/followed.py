"""Objects of a kind as a watch tells them, for namespaces of a thousand engines: listing those anew at each look would
take more of the machine than what is tested.

What we made ourselves is seen at once, so that nothing is made twice because a watch is late.
"""

import asyncio
import contextlib
import json

import httpx

from tests.support.kube_simulator.api import Api, Json

PATIENCE = 300.0
"""Seconds that a request may take on a machine that is full of engines."""
AGAIN = 0.2
"""Seconds between a watch that ended and the next list."""


class Followed(Api):
    """An Api whose lists come from watches. `follow` must run beside whoever lists."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._http.timeout = httpx.Timeout(PATIENCE)
        self._seen: dict[str, dict[str, Json]] = {}

    async def list(self, kind: str) -> list[Json]:
        return list(self._seen.get(kind, {}).values())

    async def create(self, kind: str, body: Json) -> Json | None:
        made = await super().create(kind, body)
        if made is not None and kind in self._seen:
            self._seen[kind].setdefault(made["metadata"]["uid"], made)
        return made

    async def follow(self, kind: str) -> None:
        """Until cancelled; an API server that goes away is waited for."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                await self._watch(kind, await self._list_anew(kind))
            await asyncio.sleep(AGAIN)

    async def _list_anew(self, kind: str) -> str:
        answer = await self._http.get(self._path(kind))
        answer.raise_for_status()
        found = answer.json()
        self._seen[kind] = {one["metadata"]["uid"]: one for one in found["items"]}
        return str(found["metadata"]["resourceVersion"])

    async def _watch(self, kind: str, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version}
        async with self._http.stream("GET", self._path(kind), params=query, timeout=None) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                seen, uid = self._seen[kind], event["object"]["metadata"]["uid"]
                if event["type"] == "DELETED":
                    seen.pop(uid, None)
                else:
                    seen[uid] = event["object"]
