"""A cluster full of engines at rest, from one that the operator brought there: its objects and files by other names.

Rolling a thousand engines out takes minutes of two cores, and what an operator does with engines at rest depends on
what they are, not on how they came there. Copied is what stays: the engine, its InferenceService, its Revisions, its
pods and its artifacts. Conversion Jobs are not: they vanish by themselves.
"""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.reader import ClusterReader, EngineObjects
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, Json
from tests.integration.operator.bench import Bench
from tests.support.kube_simulator.api import PODS, REVISIONS, SERVICES, Api
from tests.support.kube_simulator.kubelet import NODE

AT_ONCE = 8
_OF_METADATA = ("name", "namespace", "labels", "annotations", "ownerReferences")
_OF_CONTAINER = ("name", "image", "args", "env")


@dataclass(frozen=True)
class Pattern:
    """An engine at rest."""

    id: str
    objects: EngineObjects
    files: dict[str, bytes]
    """Its artifacts by key."""

    @classmethod
    async def of(cls, bench: Bench, engine: str) -> "Pattern":
        """Read everything of an engine."""
        objects = await ClusterReader(bench.cluster).engine(bench.namespace, f"e{engine}")
        assert objects is not None, f"there is no engine {engine}"
        store = bench.store.client()

        def content(key: str) -> bytes:
            return bytes(store.get_object(Bucket=bench.bucket, Key=key)["Body"].read())

        keys = [key for key in await asyncio.to_thread(bench.objects) if f"/{engine}/" in key]
        return cls(engine, objects, {key: await asyncio.to_thread(content, key) for key in keys})


class Copier:
    """Copies patterns within one bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._cluster: ClusterClient = bench.cluster
        self._store: Any = bench.store.client()

    async def copy(self, pattern: Pattern, engines: list[str]) -> None:
        """One engine at rest for each id. The simulated controllers must not run."""
        places = asyncio.Semaphore(AT_ONCE)
        async with Api(self._bench.plane.kubeconfig, self._bench.namespace) as api:

            async def one(engine: str) -> None:
                async with places:
                    await self._one(api, pattern, engine)

            await asyncio.gather(*(one(engine) for engine in engines))

    async def _one(self, api: Api, pattern: Pattern, engine: str) -> None:
        swaps = {pattern.id: engine}
        for key, content in pattern.files.items():
            new = content.replace(pattern.id.encode(), engine.encode())
            swaps[hashlib.sha256(content).hexdigest()] = hashlib.sha256(new).hexdigest()
            place = key.replace(pattern.id, engine)
            await asyncio.to_thread(self._store.put_object, Bucket=self._bench.bucket, Key=place, Body=new)
        objects = pattern.objects
        body = _swapped(objects.engine, swaps)
        made = await self._cluster.create(ENGINES, _written(body))
        swaps[objects.engine["metadata"]["uid"]] = made["metadata"]["uid"]
        about = {field: made["metadata"][field] for field in ("name", "namespace", "uid")}
        status = {"metadata": about, "status": body["status"]}
        await self._cluster.apply(ENGINES, status, subresource="status")
        service = objects.service
        assert service is not None, "an engine at rest has a service"
        body = _swapped(service, swaps)
        made = await self._cluster.apply(INFERENCE_SERVICES, _written(body))
        swaps[service["metadata"]["uid"]] = made["metadata"]["uid"]
        await api.set_status(SERVICES, made["metadata"]["name"], body["status"])
        for kind, items in ((REVISIONS, objects.revisions), (PODS, _predictors(objects))):
            for item in items:
                await _put(api, kind, item, swaps)


async def _put(api: Api, kind: str, item: Json, swaps: dict[str, str]) -> None:
    body = _swapped(item, swaps)
    revision = {"apiVersion": "serving.knative.dev/v1", "kind": "Revision"}
    made = await api.create(kind, _pod(body) if kind == PODS else revision | _written(body))
    assert made is not None, f"{body['metadata']['name']} is there already"
    swaps[item["metadata"]["uid"]] = made["metadata"]["uid"]
    await api.set_status(kind, made["metadata"]["name"], body["status"])


def _predictors(objects: EngineObjects) -> list[Json]:
    return [one for one in objects.pods if "serving.knative.dev/revision" in one["metadata"]["labels"]]


def _swapped(item: Json, swaps: dict[str, str]) -> Json:
    text = json.dumps(item)
    for old, new in swaps.items():
        text = text.replace(old, new)
    found: Json = json.loads(text)
    return found


def _written(item: Json) -> Json:
    """What somebody wrote of an object, not what the API server added."""
    metadata = {field: item["metadata"][field] for field in _OF_METADATA if field in item["metadata"]}
    return {"metadata": metadata, "spec": item["spec"]}


def _pod(item: Json) -> Json:
    containers = [
        {field: one[field] for field in _OF_CONTAINER if field in one} for one in item["spec"]["containers"]
    ]
    spec = {"containers": containers, "nodeName": NODE, "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod"} | _written(item | {"spec": spec})
