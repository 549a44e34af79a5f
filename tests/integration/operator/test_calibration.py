"""The simulator against what was recorded of KServe's and Knative's real controllers."""

import uuid
from pathlib import Path

import pytest

from devcluster.control_plane import ControlPlane
from devcluster.s3 import S3Server
from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.connection import from_kubeconfig
from engine_operator.cluster.resources import NAMESPACES
from tests.support.calibration.real import pinned
from tests.support.calibration.recording import Recording, differences
from tests.support.calibration.simulated import Beside, simulate
from tests.support.kube_simulator import Store

RECORDED = Path(__file__).parents[2] / "data" / "calibration" / "sequences.json"


@pytest.mark.timeout(240)
async def test_the_simulator_goes_through_the_sequences_of_the_real_controllers(
    control_plane: ControlPlane, s3: S3Server
) -> None:
    recorded = Recording.read(RECORDED)
    assert recorded.versions == pinned(), "record again: python -m tests.support.calibration"
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    store = Store(s3.endpoint, s3.access_key, s3.secret_key)
    store.client().create_bucket(Bucket=namespace)
    async with ClusterClient(from_kubeconfig(control_plane.kubeconfig)) as cluster:
        await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        try:
            steps = await simulate(cluster, Beside(control_plane.kubeconfig, namespace, store, namespace))
        finally:
            await cluster.delete(ObjectRef(NAMESPACES, None, namespace))
    assert differences(recorded.steps, steps) == []
