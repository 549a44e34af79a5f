"""The bench that every test of this folder works on: one namespace with everything around it, and the operator.

The operator runs as a process of its own, so that it can be killed like one. Its waits are multiplied by this run's
`time_factor`; the bounds that Kubernetes sets (a Lease of seconds) stay.
"""

import asyncio
import io
import json
import os
import re
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from devcluster.control_plane import ControlPlane
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.connection import from_kubeconfig
from engine_operator.cluster.resources import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    NAMESPACES,
    PODS,
    REVISIONS,
    SECRETS,
    SERVAL_SOURCES,
    Json,
    Resource,
)
from tests.integration.operator.process import AuditLog, OperatorProcess, received, writes_of
from tests.support.kube_simulator import KubeSimulator, Store
from tests.support.serval import ServalStandIn
from tests.support.waiting import eventually, time_factor

PATIENCE = 40.0
"""Seconds that a test waits for something; on an idle machine everything happens within a few."""

OURS = tuple(Path(__file__).parents[3] / folder for folder in ("operator", "contract"))
"""Where the operator's packages lie."""


@dataclass
class Bench:
    """Everything around one operator."""

    plane: ControlPlane
    cluster: ClusterClient
    namespace: str
    serval: ServalStandIn
    key: str
    simulator: KubeSimulator
    store: Store
    bucket: str
    folder: Path
    operators: list[OperatorProcess] = field(default_factory=list)
    python: Path | None = None
    """Interpreter of the operators, with libraries and nothing of ours; None: the tests' own."""

    def __post_init__(self) -> None:
        self._audit = AuditLog(self.plane.audit_log, self.namespace)

    # The operator

    async def start_operator(
        self,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        code: Sequence[Path] = (),
        **settings: str,
    ) -> OperatorProcess:
        """Start one; a second one waits for the Lease. `settings` by the names of their fields.

        `code` are folders of another version's packages, which go before this one's.
        """
        log = self.folder / f"operator-{len(self.operators)}.log"
        environment = {
            **os.environ,
            "KUBECONFIG": kubeconfig or str(self.plane.kubeconfig),
            "PYTHONPATH": os.pathsep.join([*map(str, code), *(map(str, OURS) if self.python else sys.path)]),
            "PYTHONUNBUFFERED": "1",
            **{
                f"SERVAL_LIVE_OPERATOR_{name.upper()}": value
                for name, value in {
                    "time_factor": str(time_factor()),
                    "sweep_every": "60",
                    "deletion_grace": "150",
                    "health_host": "127.0.0.1",
                    "health_port": "0",
                    "converter_image": "dev.local/predictor@sha256:1",
                    "runtime_image_cpu": "dev.local/predictor@sha256:1",
                    "log_level": "debug",
                    **settings,
                }.items()
            },
        }
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                str(self.python or sys.executable),
                "-m",
                "engine_operator",
                "run",
                "--namespace",
                namespace or self.namespace,
                env=environment,
                stdout=output,
                stderr=output,
            )
        running = OperatorProcess(process, log)
        self.operators.append(running)
        return running

    # What people and Serval do

    async def make_source(self, name: str = "ruth", **spec: Any) -> Json:
        """A ServalSource of the stand-in's only key, and its Secrets."""
        await self.make_secret("serval-key", {"api-key": self.key})
        keys = {"AWS_ACCESS_KEY_ID": self.store.access_key, "AWS_SECRET_ACCESS_KEY": self.store.secret_key}
        await self.make_secret("store", keys)
        body = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "url": self.serval.url,
                "credentialsSecretRef": {"name": "serval-key"},
                "artifactStore": self.artifact_store(),
                **spec,
            },
        }
        return await self.cluster.create(SERVAL_SOURCES, body)

    def artifact_store(self) -> Json:
        """`artifactStore` of this bench's bucket."""
        return {
            "uri": f"s3://{self.bucket}/artifacts",
            "endpoint": self.store.endpoint,
            "region": self.store.region,
            "secretRef": {"name": "store"},
        }

    async def make_secret(self, name: str, values: dict[str, str]) -> None:
        """Create or replace a Secret."""
        await self.cluster.delete(ObjectRef(SECRETS, self.namespace, name))
        body = {"metadata": {"name": name, "namespace": self.namespace}, "stringData": values}
        await self.cluster.create(SECRETS, body)

    def archive(self, content: str = "model") -> Path:
        """A model archive that a converter can open."""
        path = self.folder / f"{content}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo("config.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
        return path

    def broken_archive(self) -> Path:
        """An archive that no converter can open."""
        path = self.folder / "broken.tar.gz"
        path.write_bytes(b"this is no archive")
        return path

    async def annotate_source(self, annotations: dict[str, str], name: str = "ruth") -> None:
        """What a person does with kubectl annotate."""
        ref = ObjectRef(SERVAL_SOURCES, self.namespace, name)
        await self.cluster.merge(ref, {"metadata": {"annotations": annotations}})

    async def edit(self, ref: ObjectRef, manager: str, path: list[str], value: Any) -> None:
        """What a person or a webhook does: set one field, as another field manager."""
        change: Any = value
        for part in reversed(path):
            change = {part: change}
        await self._patch_as(manager, ref, change)

    async def flip_status(self, ref: ObjectRef, status: Json) -> None:
        """What a controller does: write another status."""
        await self._patch_as("a-controller", ref, {"status": status}, "status")

    async def grant(self, rules: list[Json], user: str) -> None:
        """The shipped Roles for a user of this namespace; their bindings name a service account instead."""
        subject = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
        for rule in rules:
            kind, wide = rule["kind"], rule["kind"].startswith("Cluster")
            resource = Resource(
                "rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=not wide
            )
            metadata: Json = {"name": f"{rule['metadata']['name']}-{self.namespace}"}
            place = rule["metadata"].get("namespace")
            if place is not None:
                metadata["namespace"] = self.namespace if place == "serval-live" else place
                await self.cluster.apply(NAMESPACES, {"metadata": {"name": metadata["namespace"]}})
            body: Json = {**rule, "metadata": metadata}
            if "roleRef" in rule:
                name = f"{rule['roleRef']['name']}-{self.namespace}"
                body |= {"roleRef": {**rule["roleRef"], "name": name}, "subjects": subject}
            await self.cluster.create(resource, body)

    async def wipe_status(self, ref: ObjectRef) -> None:
        """What a restore from a backup of specs leaves: no status."""
        connection = from_kubeconfig(self.plane.kubeconfig)
        path = ref.resource.path(ref.namespace, ref.name)
        async with httpx.AsyncClient(base_url=connection.server, verify=connection.tls) as http:
            live = (await http.get(path)).json()
            live["status"] = {}
            answer = await http.put(f"{path}/status", json=live, params={"fieldManager": "a-restore"})
            answer.raise_for_status()

    async def _patch_as(self, manager: str, ref: ObjectRef, change: Json, subresource: str = "") -> None:
        connection = from_kubeconfig(self.plane.kubeconfig)
        async with httpx.AsyncClient(base_url=connection.server, verify=connection.tls) as http:
            answer = await http.patch(
                ref.resource.path(ref.namespace, ref.name, subresource),
                params={"fieldManager": manager},
                json=change,
                headers={"Content-Type": "application/merge-patch+json"},
            )
            answer.raise_for_status()

    # What is

    def check(self) -> None:
        """Raise where the bench itself is broken: a wait would only hide that."""
        self.simulator.check()
        for one in self.operators:
            if one.process.returncode is not None and not one.ended:
                raise RuntimeError(f"an operator ended by itself:\n{self.describe()}")

    async def find(self, resource: Resource, name: str) -> Json | None:
        """One object of the namespace."""
        self.check()
        return await self.cluster.find(ObjectRef(resource, self.namespace, name))

    async def all(self, resource: Resource) -> list[Json]:
        """All objects of a kind in the namespace."""
        self.check()
        return [one async for one in self.cluster.list(resource, self.namespace)]

    async def engine(self, engine_id: str) -> Json:
        """The TranslationEngine of a discovered engine. Raises AssertionError if there is none."""
        found = await self.find(ENGINES, f"e{engine_id}")
        assert found is not None, f"there is no TranslationEngine e{engine_id}"
        return found

    async def serves(self, engine_id: str, revision: int) -> Json:
        """The status of an engine that serves this revision. Raises AssertionError otherwise."""
        status = (await self.engine(engine_id)).get("status", {})
        serving = status.get("serving", {}).get("revision")
        assert serving == revision, f"serves {serving}, not {revision}: {json.dumps(status.get('target'))}"
        assert status["target"]["phase"] == "Serving", status["target"]
        found: Json = status
        return found

    async def until_serves(self, engine_id: str, revision: int, timeout: float = PATIENCE) -> Json:
        """Wait until an engine serves a revision; its status."""

        async def look() -> Json:
            return await self.serves(engine_id, revision)

        return await eventually(look, timeout=timeout, describe=self.describe, retry_on=(KeyError,))

    async def until_job(self, engine_id: str, revision: int) -> Json:
        """Wait for the conversion Job of a revision."""

        async def look() -> Json:
            wanted = f"{engine_id}/r{revision}/"
            for job in await self.all(JOBS):
                if job["metadata"]["annotations"]["serval-live.dev/artifact-key"].startswith(wanted):
                    return job
            raise AssertionError(f"no Job for {wanted}")

        return await eventually(look, timeout=PATIENCE, describe=self.describe)

    async def until_cursor(self, engine_id: str) -> None:
        """Wait until the source's cursor is at a build of this engine."""

        async def look() -> None:
            cursor = (await self.source_status()).get("cursor", {})
            assert cursor.get("engineId") == engine_id, cursor

        await eventually(look, timeout=PATIENCE, describe=self.describe)

    async def until_leads(self) -> None:
        """Wait until the operator that was started last leads."""
        await eventually(
            lambda: "leading" in self.operators[-1].log.read_text(), timeout=PATIENCE, describe=self.describe
        )

    async def settle(self, quiet: float = 1.5) -> None:
        """Wait until the operator has written nothing for `quiet` seconds."""

        def silent() -> bool:
            return not self.writes(since=time.time() - quiet)

        await eventually(silent, timeout=PATIENCE, describe=self.describe, interval=0.2)

    async def source_status(self, name: str = "ruth") -> Json:
        """The status of a ServalSource."""
        found = await self.find(SERVAL_SOURCES, name)
        assert found is not None
        assert "status" in found, "nothing is told yet"
        status: Json = found["status"]
        return status

    async def pods_of(self, revision: str) -> list[Json]:
        """Pods of a Knative revision."""
        pods = await self.all(PODS)
        return [
            one for one in pods if one["metadata"]["labels"].get("serving.knative.dev/revision") == revision
        ]

    async def condition(self, engine_id: str, kind: str) -> Json:
        """One condition of an engine."""
        status = (await self.engine(engine_id)).get("status", {})
        return next((one for one in status.get("conditions", []) if one["type"] == kind), {})

    def objects(self, below: str = "artifacts/") -> list[str]:
        """Keys in the bucket."""
        pages = (
            self.store.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=below)
        )
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def manifests(self) -> list[str]:
        """Artifact keys that have a manifest, without the installation's folder."""
        found = [key for key in self.objects() if key.endswith("/manifest.json")]
        return sorted("/".join(key.split("/")[2:-1]) for key in found)

    def writes(self, since: float = 0.0) -> list[Json]:
        """Writes of the operator that the API server has answered, from its audit log; no Lease, no dry runs."""
        self._audit.read()
        return [entry for entry in self._audit.writes if received(entry) >= since]

    async def metric(self, name: str) -> float:
        """Sum of a figure's samples at the operator that was started last; 0 if it has none."""
        found = re.findall(r"health and metrics on port (\d+)", self.operators[-1].log.read_text())
        assert found, "it does not serve its figures yet"
        async with httpx.AsyncClient(timeout=5) as http:
            answer = await http.get(f"http://127.0.0.1:{found[-1]}/metrics")
        values = [line.split()[-1] for line in answer.text.splitlines() if line.startswith(name)]
        return sum(float(value) for value in values)

    def lease_writes(self) -> list[Json]:
        """Writes of the Lease that the API server has answered."""
        self._audit.read()
        return self._audit.leases

    # For the reports of failing tests

    def describe(self) -> str:
        """Logs of all operators; `eventually` prints it."""
        return "\n".join(f"== {one.log.name}\n{one.log.read_text()[-6000:]}" for one in self.operators)


__all__ = [
    "ENGINES",
    "INFERENCE_SERVICES",
    "JOBS",
    "PATIENCE",
    "PODS",
    "REVISIONS",
    "SECRETS",
    "SERVAL_SOURCES",
    "Bench",
    "OperatorProcess",
    "from_kubeconfig",
    "writes_of",
]
