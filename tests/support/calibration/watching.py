"""Watches one InferenceService and its Revisions, and keeps every value that an observable takes.

An observable is what our operator decides by, or could: each condition's status and reason, the traffic, the three
names of revisions, KServe's model status, and of each Revision Ready and Active. Messages and times are none: they
hold names and moments of one cluster. A Revision is called by its number.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from engine_operator.cluster.connection import from_kubeconfig
from engine_operator.cluster.resources import INFERENCE_SERVICES, REVISIONS, Resource
from tests.support.calibration.recording import Change
from tests.support.waiting import eventually

Json = dict[str, Any]
GONE = "gone"
REVISION_CONDITIONS = ("Ready", "Active")
"""Of a Revision; the others are what Ready is made of, and nobody outside Knative reads them."""


class Watch:
    """What was seen of one namespace since the last `take`. Use as an async context manager."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        connection = from_kubeconfig(kubeconfig)
        self._namespace = namespace
        self._http = httpx.AsyncClient(
            base_url=connection.server, verify=connection.tls, auth=connection.auth, timeout=None
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._changes: list[Change] = []
        self._last = time.monotonic()
        self.now: dict[str, str] = {}
        """Observable -> its present value."""

    async def __aenter__(self) -> "Watch":
        kinds = (INFERENCE_SERVICES, REVISIONS)
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in kinds]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def quiet(self, seconds: float) -> None:
        """Wait until nothing has changed for so long."""
        await eventually(lambda: time.monotonic() - self._last >= seconds, timeout=seconds + 60)
        for task in self._tasks:
            if task.done():
                task.result()

    def take(self) -> tuple[Change, ...]:
        """The changes since the last time."""
        taken, self._changes = tuple(self._changes), []
        return taken

    async def _follow(self, kind: Resource) -> None:
        path = kind.path(self._namespace)
        listed = (await self._http.get(path)).raise_for_status().json()
        query = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with self._http.stream("GET", path, params=query) as events:
            async for line in events.aiter_lines():
                event = json.loads(line)
                self._see(kind, event["object"], gone=event["type"] == "DELETED")

    def _see(self, kind: Resource, item: Json, gone: bool) -> None:
        told = dict(_of_service(item) if kind is INFERENCE_SERVICES else _of_revision(item))
        prefix = "service/" if kind is INFERENCE_SERVICES else f"revision {short(item['metadata']['name'])}/"
        if gone:
            told = {prefix + "object": GONE}
            self.now = {name: value for name, value in self.now.items() if not name.startswith(prefix)}
        for name, value in told.items():
            if self.now.get(name) != value:
                self.now[name] = value
                self._changes.append(Change(name, value))
                self._last = time.monotonic()


def short(revision: str | None) -> str:
    """The number of a Revision of ours: of `x-predictor-00003`, 3."""
    return str(int(revision.rsplit("-", 1)[1])) if revision else ""


def _of_service(item: Json) -> Iterator[tuple[str, str]]:
    status = item.get("status") or {}
    for one in status.get("conditions") or []:
        yield f"service/{one['type']}", _told(one)
    predictor = (status.get("components") or {}).get("predictor") or {}
    for name in ("latestCreatedRevision", "latestReadyRevision", "latestRolledoutRevision"):
        if name in predictor:
            yield f"service/{name}", short(predictor[name])
    if "traffic" in predictor:
        yield "service/traffic", ", ".join(sorted(_share(one) for one in predictor["traffic"]))
    model = status.get("modelStatus") or {}
    if model:
        states = model.get("states") or {}
        shown = (states.get("activeModelState", ""), states.get("targetModelState", ""))
        yield "service/model", f"{model.get('transitionStatus')} active={shown[0]} target={shown[1]}"
    if "lastFailureInfo" in model:
        failure = model["lastFailureInfo"]
        yield (
            "service/lastFailure",
            f"{failure.get('reason')} {failure.get('exitCode')} {failure.get('message', '')}",
        )


def _share(entry: Json) -> str:
    latest = " latest" if entry.get("latestRevision") else ""
    tag = f" tag={entry['tag']}" if entry.get("tag") else ""
    return f"{short(entry.get('revisionName'))}: {entry.get('percent', 0)}%{latest}{tag}"


def _of_revision(item: Json) -> Iterator[tuple[str, str]]:
    number = short(item["metadata"]["name"])
    for one in (item.get("status") or {}).get("conditions") or []:
        if one["type"] in REVISION_CONDITIONS:
            yield f"revision {number}/{one['type']}", _told(one)


def _told(condition: Json) -> str:
    return f"{condition['status']} {condition.get('reason') or ''}".strip()
