"""The cluster itself: it comes up from its snapshot, serves, and goes without a trace.

These tests own the machine's cluster: one that runs before them is ended.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.errors import NotRunning
from tests.cluster.observe import Footprint, footprint

pytestmark = [
    pytest.mark.timeout(3600),  # a cold cache builds Kubernetes first
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster from source needs root"),
]

SECOND_START_S = 60
"""The promise for a start from a snapshot."""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster.default()


@pytest.fixture(scope="module")
def before(cluster: Cluster) -> Footprint:
    """The machine without a cluster."""
    cluster.down()
    return footprint(cluster.settings)


@pytest.fixture(scope="module")
def running(cluster: Cluster, before: Footprint) -> Iterator[Cluster]:
    cluster.up()
    yield cluster
    cluster.down()


def inside(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devcluster", "exec", "--", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_part_answers(running: Cluster) -> None:
    node = running.node()
    pods = json.loads(node.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    namespaces = {pod["metadata"]["namespace"] for pod in pods}
    assert namespaces >= {"kube-system", "knative-serving", "kourier-system", "kserve", "s3"}
    served = node.kubectl("api-resources", "--output=name").split()
    assert {"inferenceservices.serving.kserve.io", "services.serving.knative.dev"} <= set(served)


def test_a_second_up_changes_nothing(running: Cluster) -> None:
    pid = running.sandbox().pid
    running.up()
    assert running.sandbox().pid == pid


def test_names_of_services_resolve_inside_and_unknown_names_are_refused_at_once(running: Cluster) -> None:
    found = inside("python3", "-c", "import socket; print(socket.gethostbyname('s3.s3.svc.cluster.local'))")
    assert found.stdout.startswith("10.96."), found.stderr
    lost = inside(
        "python3", "-c", "import socket; socket.setdefaulttimeout(9); socket.gethostbyname('no.example')"
    )
    assert "Name or service not known" in lost.stderr or "No address associated" in lost.stderr


def test_the_exit_code_of_a_program_run_inside_is_passed_on(running: Cluster) -> None:
    assert inside("sh", "-c", "exit 7").returncode == 7


def test_a_pod_reaches_a_process_that_listens_on_the_node(running: Cluster) -> None:
    """The way in which stand-ins for outside services are offered to pods."""
    address = running.settings.node_address
    listen = (
        f"import socket; server = socket.create_server(('{address}', 0))\n"
        "print(server.getsockname()[1], flush=True); server.accept()"
    )
    command = [sys.executable, "-m", "devcluster", "exec", "--", sys.executable, "-c", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        port = int(listener.stdout.readline())
        call = f"exec 3<>/dev/tcp/{address}/{port} && echo reached"
        gateway = ["exec", "--namespace=kourier-system", "deployment/3scale-kourier-gateway", "--"]
        assert running.node().kubectl(*gateway, "bash", "-c", call) == "reached\n"
        assert listener.wait(timeout=10) == 0


def test_there_is_no_way_out_of_the_network(running: Cluster) -> None:
    """A test that passes here has talked to nothing but the cluster."""
    outside = inside("python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), timeout=3)")
    assert outside.returncode != 0


def test_a_signal_reaches_the_program_itself(running: Cluster) -> None:
    command = [
        sys.executable,
        "-m",
        "devcluster",
        "exec",
        "--",
        "sh",
        "-c",
        "trap 'exit 9' TERM; echo up; sleep 60 & wait",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(timeout=10) == 9
    process.stdout.close()


def test_a_second_start_comes_from_the_snapshot_and_is_quick(running: Cluster) -> None:
    running.down()
    assert running.is_installed()
    begin = time.monotonic()
    running.up()
    assert time.monotonic() - begin < SECOND_START_S
    assert running.is_healthy()


def test_down_leaves_nothing_behind(running: Cluster, before: Footprint) -> None:
    """Last in this file: processes, mounts, namespaces, links, cgroups and rules are as before the cluster."""
    running.down()
    assert footprint(running.settings) == before
    assert not running.settings.state.exists()
    with pytest.raises(NotRunning):
        running.sandbox()


def test_down_ends_programs_that_were_run_inside_too(cluster: Cluster, before: Footprint) -> None:
    cluster.up()
    command = [sys.executable, "-m", "devcluster", "exec", "--", "sh", "-c", "echo up; sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        cluster.down()
        assert process.wait(timeout=10) != 0
    assert footprint(cluster.settings) == before


def test_an_interrupted_start_is_cleaned_by_the_next_one(cluster: Cluster, before: Footprint) -> None:
    cluster.up()
    os.kill(cluster.node().sandbox.named("kubelet")[0], 9)
    assert not cluster.is_healthy()
    cluster.up()
    assert cluster.is_healthy()
    cluster.down()
    assert footprint(cluster.settings) == before
