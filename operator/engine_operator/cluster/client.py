"""A small asynchronous client of the Kubernetes API.

Exactly the verbs that the operator uses, with typed errors, so that callers tell a webhook that is away from an object
that is wrong. Applies are server-side, with one field manager, and never forced. Refuses to write when its guard says
that another process may lead. The official client costs 130 MB of image and 20 MB of memory and is synchronous.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx

from engine_operator import metrics
from engine_operator.cluster.answers import error_of, retry_after_of
from engine_operator.cluster.connection import Connection
from engine_operator.cluster.resources import FIELD_MANAGER, Json, JsonView, Resource, plural_of
from engine_operator.errors import ClusterBusy, ClusterUnreachable, NotFound

Guard = Callable[[], None]
"""Called before each write; raises to refuse it."""

_APPLY = {"Content-Type": "application/apply-patch+yaml"}
_MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True)
class Limits:
    """Bounds of one client."""

    read_timeout: float = 15.0
    """Seconds for a get or a page of a list."""

    write_timeout: float = 5.0
    """Seconds for a write. Shorter than the rest of a Lease after its renewal deadline: no write outlives our lead."""

    page: int = 100
    """Objects a page of a list: about 1 MB of JSON, and 6 MB once it is parsed."""

    patience: float = 30.0
    """Seconds that one call waits for a busy server (429) before it gives up."""


@dataclass(frozen=True)
class ObjectRef:
    """One object of one kind. `uid` turns a deletion into "this very one"."""

    resource: Resource
    namespace: str | None
    name: str
    uid: str | None = None


def allow_everything() -> None:
    """The guard of tools and tests that have no Lease."""


class ClusterClient:
    """Speaks to one API server. Use as an async context manager, or call `aclose`."""

    def __init__(
        self,
        connection: Connection,
        guard: Guard = allow_everything,
        limits: Limits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        may_lack: frozenset[Resource] = frozenset(),
    ) -> None:
        """`may_lack` are kinds that a cluster may be without: lists of them are empty then."""
        self._guard = guard
        self._may_lack = may_lack
        self._limits = limits or Limits()
        self._quiet = connection.quiet
        self._http = httpx.AsyncClient(
            base_url=connection.server,
            auth=connection.auth,
            verify=connection.tls,
            transport=transport,
            timeout=self._limits.read_timeout,
            headers={"User-Agent": connection.agent, "Accept": "application/json"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(self, ref: ObjectRef) -> Json:
        """One object. Raises NotFound."""
        return await self._json("GET", ref.resource.path(ref.namespace, ref.name))

    async def find(self, ref: ObjectRef) -> Json | None:
        """One object, or None if there is none of this name or kind."""
        try:
            return await self.get(ref)
        except NotFound:
            return None

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Json]:
        """All objects that a selector matches, page by page; `namespace` None means all namespaces.

        An interrupted list is an error, never a short list. Items carry no kind or apiVersion, as the API sends them.
        """
        query = {"limit": str(self._limits.page), "labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in query.items() if value}
        while True:
            try:
                page = await self._json("GET", resource.path(namespace), query=query)
            except NotFound:
                if resource in self._may_lack:
                    return
                raise
            items = page.get("items") or []
            items.reverse()
            while items:
                yield items.pop()  # Whoever keeps less of an object than it is should not pay for a page of them.
            following = page.get("metadata", {}).get("continue")
            if not following:
                return
            query["continue"] = following

    async def apply(
        self, resource: Resource, body: JsonView, subresource: str = "", force: bool = False
    ) -> Json:
        """Server-side apply. Raises Conflict with the names of the other managers, unless it is forced.

        Nothing is forced but the one annotation by which a Revision is held awake (`executor`).
        """
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        query = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()}
        return await self._json("PATCH", path, query=query, body=whole, headers=_APPLY)

    async def create(self, resource: Resource, body: JsonView) -> Json:
        """Raises AlreadyExists."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        path = resource.path(body["metadata"].get("namespace"))
        return await self._json("POST", path, query={"fieldManager": FIELD_MANAGER}, body=whole)

    async def replace(self, resource: Resource, body: JsonView) -> Json:
        """PUT of an object that was read before: its resourceVersion guards against a lost update (Outdated)."""
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        return await self._json("PUT", path, query={"fieldManager": FIELD_MANAGER}, body=body)

    async def merge(self, ref: ObjectRef, change: JsonView) -> Json:
        """JSON merge patch, for objects that are ours alone (Events, a released annotation)."""
        path = ref.resource.path(ref.namespace, ref.name)
        return await self._json(
            "PATCH", path, query={"fieldManager": FIELD_MANAGER}, body=change, headers=_MERGE
        )

    async def delete(self, ref: ObjectRef, propagation: str = "Background") -> bool:
        """Delete; True if there was something to delete. Raises Outdated if `uid` is another's.

        `Foreground` keeps the object until everything that it owns is gone.
        """
        options: Json = {"propagationPolicy": propagation}
        if ref.uid:
            options["preconditions"] = {"uid": ref.uid}
        try:
            await self._json("DELETE", ref.resource.path(ref.namespace, ref.name), body=options)
        except NotFound:
            return False
        return True

    async def _json(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonView | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        request = self._http.build_request(
            verb,
            path,
            params=query,
            json=body,
            headers=headers,
            timeout=self._limits.read_timeout if verb == "GET" else self._limits.write_timeout,
        )
        give_up = time.monotonic() + self._limits.patience
        while True:
            await self._wait_while_quiet(path, give_up)
            answer = await self._send(request)
            if answer.status_code == 429:
                # The whole process keeps quiet, so that no other call arrives earlier than the server asked.
                self._quiet.ask(retry_after_of(answer))
                continue
            if answer.is_success:
                if verb != "GET":
                    metrics.API_WRITES.labels(verb, plural_of(path)).inc()
                parsed: Any = answer.json()
                return parsed if isinstance(parsed, dict) else {}
            raise error_of(answer)

    async def _wait_while_quiet(self, path: str, give_up: float) -> None:
        while (wait := self._quiet.left()) > 0:
            if time.monotonic() + wait > give_up:
                raise ClusterBusy(f"{path}: the API asked to wait {wait:.0f} s", wait)
            await asyncio.sleep(wait)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            self._guard()
        try:
            return await self._http.send(request)
        except httpx.HTTPError as error:
            said = f"{request.method} {request.url.path}: {type(error).__name__} {error}"
            raise ClusterUnreachable(said.rstrip()) from error
