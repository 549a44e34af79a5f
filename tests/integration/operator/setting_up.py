"""Sets up the bench: the control plane's kinds once, and for each user a namespace with everything around it."""

import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from devcluster import crds
from devcluster.control_plane import ControlPlane
from devcluster.programs import Programs
from devcluster.s3 import S3Server
from devcluster.waiting import until
from engine_operator.cluster.client import ClusterClient, Limits, ObjectRef
from engine_operator.cluster.connection import from_kubeconfig
from engine_operator.cluster.resources import NAMESPACES
from tests.integration.operator.bench import Bench
from tests.support.kube_simulator import KubeSimulator, Store
from tests.support.kube_simulator.followed import PATIENCE
from tests.support.serval import Bucket, ServalStandIn, Settings

FOREIGN = ("inferenceservices.serving.kserve.io", "revisions.serving.knative.dev")
OURS = ("servalsources.serval-live.dev", "translationengines.serval-live.dev")
CRDS = Path(__file__).parents[3] / "operator" / "engine_operator" / "crds"


def install_kinds(kubeconfig: Path) -> None:
    """Our kinds, and of KServe's and Knative's forty only those that the operator touches: seconds, not a minute."""
    programs = Programs.default()
    kubectl = [str(programs.path("kubectl")), f"--kubeconfig={kubeconfig}"]
    every = json.loads(crds.every(programs))
    every["items"] = [one for one in every["items"] if one["metadata"]["name"] in FOREIGN]
    assert len(every["items"]) == len(FOREIGN), "a pinned version has other names"
    apply = [*kubectl, "apply", "--server-side", "-f"]
    subprocess.run([*apply, str(CRDS)], check=True, capture_output=True)
    subprocess.run([*apply, "-"], input=json.dumps(every).encode(), check=True, capture_output=True)
    names = [f"crd/{name}" for name in (*FOREIGN, *OURS)]
    wait = [*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *names]

    def established() -> bool:
        # kubectl ends with an error where a type has no conditions at all yet.
        return subprocess.run(wait, capture_output=True, check=False).returncode == 0

    until("the resource types", established, timeout_s=60, pause_s=0.2)


@asynccontextmanager
async def open_bench(
    control_plane: ControlPlane, s3: S3Server, folder: Path, large: bool = False
) -> AsyncIterator[Bench]:
    """A namespace with a Serval, a simulator and a bucket of its own; no source and no operator yet.

    `large` is for hundreds of engines (see `KubeSimulator`).
    """
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    store = Store(s3.endpoint, s3.access_key, s3.secret_key)
    store.client().create_bucket(Bucket=namespace)
    models = Bucket(namespace, s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    connection = replace(from_kubeconfig(control_plane.kubeconfig), agent="the-bench")
    limits = Limits(read_timeout=PATIENCE, write_timeout=PATIENCE) if large else Limits()
    async with ClusterClient(connection, limits=limits) as cluster:
        await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        with ServalStandIn(Settings(long_poll_timeout=2.0), models) as serval:
            async with KubeSimulator(control_plane.kubeconfig, namespace, store, large=large) as simulator:
                made = Bench(
                    plane=control_plane,
                    cluster=cluster,
                    namespace=namespace,
                    serval=serval,
                    key=serval.add_key("ruth"),
                    simulator=simulator,
                    store=store,
                    bucket=namespace,
                    folder=folder,
                )
                try:
                    yield made
                    simulator.check()
                finally:
                    for operator in made.operators:
                        await operator.kill()
                    await cluster.delete(ObjectRef(NAMESPACES, None, namespace))
