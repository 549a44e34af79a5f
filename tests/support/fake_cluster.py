"""A small Kubernetes API in memory, behind an `httpx` transport: enough for clients, Leases and executors.

It keeps the rules that matter there: resource versions guard replacements, creation of an existing name conflicts, and
applies record their manager. It refuses to be an API server: schemas, admission and watches belong to the real one.
"""

import copy
import itertools
import json
import ssl
from collections.abc import Callable
from typing import Any

import httpx

from engine_operator.cluster.client import ClusterClient, Guard, Limits, allow_everything
from engine_operator.cluster.connection import Connection, Quiet
from engine_operator.cluster.resources import Resource

Json = dict[str, Any]
Interference = Callable[[httpx.Request], httpx.Response | None]


class FakeCluster:
    """The objects by path, and every request that was made."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[httpx.Request] = []
        self.interfere: Interference = lambda _: None
        """May answer in the API's place."""
        self._versions = itertools.count(1)

    def client(
        self,
        guard: Guard = allow_everything,
        limits: Limits | None = None,
        quiet: Quiet | None = None,
        may_lack: frozenset[Resource] = frozenset(),
    ) -> ClusterClient:
        """A client of this cluster."""
        connection = Connection(
            "https://fake.example", ssl.create_default_context(), "default", quiet=quiet or Quiet()
        )
        return ClusterClient(connection, guard, limits, httpx.MockTransport(self._answer), may_lack)

    def put(self, path: str, body: Json) -> None:
        """An object that is there from the start."""
        self._store(path, copy.deepcopy(body))

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Verbs and paths of all writes."""
        return [(one.method, one.url.path) for one in self.requests if one.method != "GET"]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.interfere(request)
        if answer is not None:
            return answer
        handler: Callable[[httpx.Request], httpx.Response] = getattr(self, f"_{request.method.lower()}")
        return handler(request)

    def _get(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path in self.objects:
            return httpx.Response(200, json=self.objects[path])
        below = [body for key, body in self.objects.items() if key.rpartition("/")[0] == path]
        if below:
            return httpx.Response(200, json={"items": below, "metadata": {}})
        return _status(404, "NotFound", f"{path} not found")

    def _post(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        path = f"{request.url.path}/{body['metadata']['name']}"
        if path in self.objects:
            return _status(409, "AlreadyExists", "already exists")
        return httpx.Response(201, json=self._store(path, body))

    def _put(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content)
        live = self.objects.get(path)
        if live is None:
            return _status(404, "NotFound", "not found")
        if body["metadata"].get("resourceVersion") != live["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        return httpx.Response(200, json=self._store(path, body))

    def _patch(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content)
        place, _, subresource = path.partition("/status")
        live = self.objects.get(place if subresource == "" and path.endswith("/status") else path)
        merged = {**(live or {}), **body}
        merged["metadata"] = {**((live or {}).get("metadata") or {}), **body.get("metadata", {})}
        if "apply" in request.headers["content-type"]:
            entry = {
                "manager": request.url.params["fieldManager"],
                "operation": "Apply",
                "fieldsV1": body.get("spec"),
            }
            merged["metadata"]["managedFields"] = [entry]
        return httpx.Response(200, json=self._store(place if path.endswith("/status") else path, merged))

    def _delete(self, request: httpx.Request) -> httpx.Response:
        live = self.objects.get(request.url.path)
        if live is None:
            return _status(404, "NotFound", "not found")
        options = json.loads(request.content) if request.content else {}
        if options.get("preconditions", {}).get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match the UID in record")
        del self.objects[request.url.path]
        return httpx.Response(200, json={})

    def _store(self, path: str, body: Json) -> Json:
        body.setdefault("metadata", {})["resourceVersion"] = str(next(self._versions))
        body["metadata"].setdefault("uid", f"uid-of-{path.rpartition('/')[2]}")
        self.objects[path] = body
        return body


def _status(code: int, reason: str, message: str) -> httpx.Response:
    return httpx.Response(code, json={"kind": "Status", "reason": reason, "message": message, "code": code})


status_answer = _status
"""A refusal as the API writes it."""
