"""A cluster of somebody else: what is asked of it, what is put into it, and what is never touched.

The API server and the controllers are real; there is no node, so the test says that pods are ready.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster.control_plane import ControlPlane
from devcluster.errors import HostUnfit, NotRunning, UsageError
from devcluster.existing import Existing
from devcluster.ports import free_ports
from devcluster.programs import Programs
from tests.support.waiting import eventually_sync

KINDS = ("services.serving.knative.dev", "inferenceservices.serving.kserve.io")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(tmp_path_factory.mktemp("foreign"), controllers=True) as started:
        yield started


@pytest.fixture
def cluster(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Existing]:
    """The cluster, named as a person names it; emptied of what a test left there."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    made = Existing(Programs.default())
    yield made
    made.kubectl("delete", "namespace", "s3", "--ignore-not-found")
    made.kubectl("delete", "crd", *KINDS, "--ignore-not-found")


def serve_kinds(cluster: Existing, *names: str) -> None:
    """Resource types of those names; what their objects look like is nobody's question here."""
    for name in names:
        plural, _, group = name.partition(".")
        kind = plural.title().removesuffix("s")
        schema = {"openAPIV3Schema": {"type": "object"}}
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        head: dict[str, object] = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
        }
        cluster.kubectl(
            "create", "-f", "-", stdin=json.dumps(head | {"metadata": {"name": name}, "spec": spec})
        )


def namespaces(cluster: Existing) -> list[str]:
    return cluster.kubectl("get", "namespaces", "--output=name").split()


def let_pods_be_ready(cluster: Existing) -> bool:
    """Plays the kubelet for the pods of the S3 server; whether there were any."""
    pods = cluster.kubectl("get", "pods", "--namespace=s3", "--output=name").split()
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for pod in pods:
        patch = json.dumps({"status": status})
        cluster.kubectl(
            "patch", pod, "--namespace=s3", "--subresource=status", "--type=merge", f"--patch={patch}"
        )
    return bool(pods)


@pytest.mark.parametrize("there", [(), KINDS[:1]])
def test_everything_that_is_lacking_is_named_at_once_and_nothing_is_written(
    cluster: Existing, there: tuple[str, ...]
) -> None:
    serve_kinds(cluster, *there)
    before = namespaces(cluster)
    with pytest.raises(HostUnfit) as refused:
        cluster.up()
    assert [kind in str(refused.value) for kind in KINDS] == [kind not in there for kind in KINDS]
    assert namespaces(cluster) == before


def test_up_adds_an_s3_server_that_leaves_no_file_on_a_node_and_down_takes_it_away(cluster: Existing) -> None:
    serve_kinds(cluster, *KINDS)
    before = namespaces(cluster)
    with ThreadPoolExecutor(1) as elsewhere:
        starting = elsewhere.submit(cluster.up)
        eventually_sync(lambda: starting.done() or let_pods_be_ready(cluster), timeout=60)
        starting.result()
    deployment = json.loads(cluster.kubectl("get", "deployment", "s3", "--namespace=s3", "--output=json"))
    assert [sorted(volume) for volume in deployment["spec"]["template"]["spec"]["volumes"]] == [
        ["emptyDir", "name"]
    ]
    assert cluster.is_up()
    cluster.up()  # and has nothing to do
    again = json.loads(cluster.kubectl("get", "deployment", "s3", "--namespace=s3", "--output=json"))
    assert again["metadata"]["generation"] == deployment["metadata"]["generation"]
    cluster.down()
    assert namespaces(cluster) == before


def test_a_namespace_of_somebody_else_is_neither_used_nor_removed(cluster: Existing) -> None:
    serve_kinds(cluster, *KINDS)
    cluster.kubectl("create", "namespace", "s3")
    cluster.kubectl("create", "configmap", "theirs", "--namespace=s3")
    with pytest.raises(HostUnfit, match="somebody else"):
        cluster.up()
    cluster.down()
    left = cluster.kubectl("get", "configmap,deployment,secret", "--namespace=s3", "--output=name").split()
    assert left == ["configmap/kube-root-ca.crt", "configmap/theirs"]


def test_a_file_that_is_not_there_is_said_to_be_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    for act in (Existing(Programs.default()).up, Existing(Programs.default()).down):
        with pytest.raises(UsageError, match="no such file"):
            act()


def test_a_cluster_that_does_not_answer_lacks_nothing_but_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plane: ControlPlane
) -> None:
    (port,) = free_ports(1)
    gone = tmp_path / "gone.kubeconfig"
    text = plane.kubeconfig.read_text(encoding="utf-8")
    gone.write_text(text.replace(plane.endpoints.server, f"https://127.0.0.1:{port}"), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(gone))
    for act in (Existing(Programs.default()).up, Existing(Programs.default()).down):
        with pytest.raises(NotRunning, match="does not answer"):
            act()
