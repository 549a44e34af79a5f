"""The few calls on the API server that the simulator makes, as itself and not as the operator."""

from pathlib import Path
from typing import Any, Self

import httpx

from engine_operator.cluster.connection import from_kubeconfig

Json = dict[str, Any]

PODS = "api/v1/namespaces/{}/pods"
NODES = "api/v1/nodes"
SECRETS = "api/v1/namespaces/{}/secrets"
SERVICES = "apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
REVISIONS = "apis/serving.knative.dev/v1/namespaces/{}/revisions"

MANAGER = "kube-simulator"


class Api:
    """One namespace of one API server. Objects that vanish under our hands are no errors."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        connection = from_kubeconfig(kubeconfig)
        self.namespace = namespace
        self._http = httpx.AsyncClient(
            base_url=connection.server, verify=connection.tls, auth=connection.auth, timeout=60
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def list(self, kind: str) -> list[Json]:
        """All objects of a kind."""
        answer = await self._http.get(self._path(kind))
        answer.raise_for_status()
        items: list[Json] = answer.json()["items"]
        return items

    async def find(self, kind: str, name: str) -> Json | None:
        """One object, or None."""
        answer = await self._http.get(self._path(kind, name))
        return None if answer.status_code == 404 else self._body(answer)

    async def create(self, kind: str, body: Json) -> Json | None:
        """The object as made; None if there is one already."""
        answer = await self._http.post(self._path(kind), json=body, params={"fieldManager": MANAGER})
        return None if answer.status_code == 409 else self._body(answer)

    async def set_status(self, kind: str, name: str, status: Json) -> bool:
        """Merge patch of the status subresource; False if it has to be written again."""
        return await self._patch(self._path(kind, name) + "/status", {"status": status})

    async def patch(self, kind: str, name: str, change: Json) -> None:
        """Merge patch."""
        await self._patch(self._path(kind, name), change)

    async def bind(self, pod: str, node: str) -> None:
        """What a scheduler does."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        answer = await self._http.post(self._path(PODS, pod) + "/binding", json=body)
        if answer.status_code not in (404, 409):
            answer.raise_for_status()

    async def delete(self, kind: str, name: str, grace: int | None = None) -> None:
        """Delete in the background; `grace` 0 removes a pod that no kubelet will end."""
        options: Json = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        answer = await self._http.request("DELETE", self._path(kind, name), json=options)
        if answer.status_code not in (404, 409):
            answer.raise_for_status()

    async def _patch(self, path: str, change: Json) -> bool:
        answer = await self._http.patch(
            path,
            json=change,
            params={"fieldManager": MANAGER},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        if answer.status_code in (404, 409):
            return False
        self._body(answer)
        return True

    def _path(self, kind: str, name: str = "") -> str:
        path = "/" + kind.format(self.namespace)
        return f"{path}/{name}" if name else path

    @staticmethod
    def _body(answer: httpx.Response) -> Json:
        if answer.is_error:
            raise AssertionError(f"{answer.request.method} {answer.request.url.path}: {answer.text[:800]}")
        body: Json = answer.json()
        return body
