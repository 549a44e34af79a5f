"""The cluster itself: it comes up from its snapshot, serves, and goes without a trace.

The tested cluster has a state folder of its own, so that it can run beside the one that a developer uses.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from devcluster import containers, host_packages, shell
from devcluster.cluster import Cluster
from devcluster.errors import NotRunning
from devcluster.settings import Settings
from tests.cluster.observe import Footprint, footprint

pytestmark = [
    pytest.mark.timeout(3600),  # a cold cache builds Kubernetes first
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster from source needs root"),
]


@dataclass(frozen=True)
class Machine:
    """The cluster under test, and how the machine looked before it."""

    cluster: Cluster
    before: Footprint

    def now(self) -> Footprint:
        return footprint(self.cluster.settings)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine on which the cluster is installed but does not run."""
    settings = Settings(chosen_state=Settings().cache / "state-of-tests")
    with pytest.MonkeyPatch.context() as patch:
        # The command line must mean the same cluster.
        patch.setenv("SERVAL_LIVE_STATE", str(settings.state))
        patch.setenv("SERVAL_LIVE_BACKEND", "source")
        cluster = Cluster.default()
        cluster.down()
        yield Machine(cluster, footprint(settings))
        cluster.down()


@pytest.fixture
def running(machine: Machine) -> Cluster:
    """The cluster, up. Starting it where it runs costs nothing."""
    machine.cluster.up()
    return machine.cluster


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


def test_an_image_of_buildahs_storage_runs_in_a_pod(running: Cluster) -> None:
    host_packages.ensure("buildah")
    name = "dev.local/serval-live/test-of-loading:1"
    container = shell.run(["buildah", "from", "scratch"]).strip()
    try:
        shell.run(["buildah", "add", "--quiet", container, running.programs.path("pause"), "/pause"])
        shell.run(["buildah", "config", "--entrypoint", '["/pause"]', container])
        shell.run(["buildah", "commit", "--quiet", "--format", "docker", container, name])
        containers.load_image(running.node(), name)
    finally:
        shell.run(["buildah", "rm", container])
        shell.run(["buildah", "rmi", name])
    node = running.node()
    node.kubectl("run", "loaded", f"--image={name}", "--restart=Never")
    try:
        node.kubectl("wait", "pod/loaded", "--for=condition=Ready", "--timeout=60s")
    finally:
        node.kubectl("delete", "pod", "loaded", "--grace-period=1")


def test_a_cluster_named_by_kubeconfig_is_only_checked(running: Cluster) -> None:
    """Seen from inside, ours is a cluster of somebody else that has everything."""
    before = running.node().kubectl("get", "deployments", "--all-namespaces", "--output=name")
    command = ["env", "SERVAL_LIVE_BACKEND=existing", sys.executable, "-m", "devcluster"]
    assert inside(*command, "up").returncode == 0
    assert inside(*command, "status").stdout.startswith("backend   existing\nrunning   yes")
    refused = inside(*command, "load-image", "dev.local/x:1")
    assert refused.returncode == 2
    assert "make images" in refused.stderr
    assert running.node().kubectl("get", "deployments", "--all-namespaces", "--output=name") == before


def test_a_second_start_installs_nothing(running: Cluster) -> None:
    """Its objects are those of the installation that the snapshot was taken from."""
    running.down()
    assert running.is_installed()
    begin = datetime.now(UTC)
    running.up()
    shown = running.node().kubectl("get", "deployments", "--all-namespaces", "--output=json")
    created = [each["metadata"]["creationTimestamp"] for each in json.loads(shown)["items"]]
    assert len(created) >= 9
    assert max(datetime.fromisoformat(each) for each in created) < begin


def test_down_leaves_nothing_behind(machine: Machine) -> None:
    """Processes, mounts, namespaces, links, cgroups and rules are as before the cluster."""
    machine.cluster.up()
    assert machine.now() != machine.before
    machine.cluster.down()
    assert machine.now() == machine.before
    assert not machine.cluster.settings.state.exists()
    with pytest.raises(NotRunning):
        machine.cluster.sandbox()


def test_down_ends_programs_that_were_run_inside_too(machine: Machine) -> None:
    machine.cluster.up()
    command = [sys.executable, "-m", "devcluster", "exec", "--", "sh", "-c", "echo up; sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        machine.cluster.down()
        assert process.wait(timeout=10) != 0
    assert machine.now() == machine.before


def test_what_a_crash_left_is_cleaned_by_the_next_start(machine: Machine) -> None:
    cluster = machine.cluster
    cluster.up()
    os.kill(cluster.sandbox().named("kubelet")[0], signal.SIGKILL)
    assert not cluster.is_healthy()
    cluster.up()
    assert cluster.is_healthy()
    cluster.down()
    assert machine.now() == machine.before
