"""Fixtures: one control plane and one S3 server for all tests, everything else for each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devcluster.control_plane import ControlPlane
from devcluster.s3 import S3Server
from tests.integration.operator.bench import Bench
from tests.integration.operator.setting_up import install_kinds, open_bench


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, API server and the real controllers (Jobs, owner references, namespaces), with all kinds installed."""
    with ControlPlane.start(tmp_path_factory.mktemp("control-plane"), controllers=True) as plane:
        install_kinds(plane.kubeconfig)
        yield plane


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server."""
    with S3Server.start(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def bench(control_plane: ControlPlane, s3: S3Server, tmp_path: Path) -> AsyncIterator[Bench]:
    """A namespace with a Serval, a simulator and a bucket of its own; no source and no operator yet."""
    async with open_bench(control_plane, s3, tmp_path) as made:
        yield made
