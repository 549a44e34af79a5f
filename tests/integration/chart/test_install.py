"""The chart, the overlays and the examples on a real API server: installed, upgraded, removed, refused.

No kubelet runs, so nothing starts; what is seen is what the server accepts, who may do what, and what survives.
"""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.control_plane import ControlPlane
from devcluster.programs import Programs

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "serval-live"
FIRST = ROOT / "tests" / "data" / "upgrade" / "first-version.tar.xz"
"""The first version that ran, chart and packages, as `git archive 69d3581` gives them."""
IMAGES = {
    "image": {"repository": "registry.example.org/operator"},
    "predictor": {"image": {"repository": "registry.example.org/predictor"}},
}
SPEC = {
    "url": "https://serval.example.org",
    "credentialsSecretRef": {"name": "serval-key"},
    "artifactStore": {"uri": "s3://bucket/live", "secretRef": {"name": "store"}},
}


@dataclass(frozen=True)
class Tools:
    """helm and kubectl against one API server, as an administrator."""

    kubeconfig: Path
    helm_program: str
    kubectl_program: str
    scratch: Path

    def kubectl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run([self.kubectl_program, f"--kubeconfig={self.kubeconfig}", *arguments], check)

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run([self.helm_program, "--kubeconfig", str(self.kubeconfig), *arguments], check)

    def install(
        self,
        release: str,
        namespace: str,
        values: dict[str, Any] | None = None,
        check: bool = True,
        chart: Path = CHART,
    ) -> subprocess.CompletedProcess[str]:
        """`helm upgrade --install` with our only two required values."""
        file = self.scratch / f"{release}.yaml"
        file.write_text(json.dumps({**IMAGES, **(values or {})}))
        place = ["--namespace", namespace, "--create-namespace", "--values", str(file)]
        return self.helm("upgrade", "--install", release, str(chart), *place, check=check)

    def find(self, *what: str) -> dict[str, Any] | None:
        """An object, or None."""
        done = self.kubectl("get", *what, "-o", "json", "--ignore-not-found")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def may(self, user: str, verb: str, what: str, namespace: str) -> bool:
        """Whether RBAC lets a user do something. `what` is `resource[.group][/subresource][:name]`."""
        path, _, name = what.partition(":")
        kind, _, subresource = path.partition("/")
        resource, _, group = kind.partition(".")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {**asked, "name": name, "namespace": namespace}},
        }
        file = self.scratch / "review.json"
        file.write_text(json.dumps(review))
        answer = json.loads(self.kubectl("create", "-f", str(file), "-o", "json").stdout)
        return bool(answer["status"]["allowed"])

    def _run(self, command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """A control plane of this module's own, since it installs and removes definitions."""
    with ControlPlane.start(tmp_path_factory.mktemp("chart-plane"), controllers=True) as plane:
        programs = Programs.default()
        scratch = tmp_path_factory.mktemp("values")
        made = Tools(plane.kubeconfig, str(programs.path("helm")), str(programs.path("kubectl")), scratch)
        made.kubectl("create", "namespace", "knative-serving")
        yield made


@pytest.fixture
def clean(tools: Tools) -> Iterator[Tools]:
    """Nothing installed before, nothing left after."""
    yield tools
    for release in json.loads(tools.helm("list", "--all-namespaces", "--output", "json").stdout):
        tools.helm("uninstall", release["name"], "--namespace", release["namespace"], "--wait")
    tools.kubectl("delete", "-k", str(ROOT / "manifests" / "overlays" / "local"), "--ignore-not-found")
    tools.kubectl("delete", "crd", "servalsources.serval-live.dev", "translationengines.serval-live.dev",
                  "--ignore-not-found")  # fmt: skip


def source(name: str, namespace: str) -> str:
    """A ServalSource as JSON."""
    kind = {"apiVersion": "serval-live.dev/v1alpha1", "kind": "ServalSource"}
    return json.dumps({**kind, "metadata": {"name": name, "namespace": namespace}, "spec": SPEC})


def engine(name: str, namespace: str, **spec: Any) -> str:
    """A person's TranslationEngine as JSON."""
    kind = {"apiVersion": "serval-live.dev/v1alpha1", "kind": "TranslationEngine"}
    named = {"source": {"servalSource": "serval", "engineId": "66c4a1f09d3e5b7a8c0f1e21"}}
    return json.dumps({**kind, "metadata": {"name": name, "namespace": namespace}, "spec": {**named, **spec}})


def uid_of(tools: Tools, what: str) -> str:
    """Uid of `kind/name` in the namespace of these tests."""
    found = tools.find(what, "--namespace=ruth")
    assert found is not None, what
    uid: str = found["metadata"]["uid"]
    return uid


def apply(tools: Tools, text: str) -> None:
    file = tools.scratch / "object.json"
    file.write_text(text)
    tools.kubectl("apply", "-f", str(file))


@pytest.mark.parametrize("overlay", ["local", "gpu-cloud", "openshift"])
def test_the_server_accepts_an_overlay_and_the_same_again_changes_nothing(clean: Tools, overlay: str) -> None:
    folder = str(ROOT / "manifests" / "overlays" / overlay)
    clean.kubectl("apply", "-k", folder)
    again = clean.kubectl("apply", "-k", folder).stdout.splitlines()
    assert len(again) > 10
    assert [line for line in again if not line.endswith(" unchanged")] == []


def test_the_server_accepts_every_example(clean: Tools) -> None:
    clean.kubectl("apply", "-k", str(ROOT / "manifests" / "crds"))
    clean.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    clean.kubectl("create", "namespace", "serval-live")
    for file in sorted((ROOT / "manifests" / "examples").glob("*.yaml")):
        # A discovered engine's settings are laid over an object that the operator made.
        made = clean.kubectl(
            "apply", "--dry-run=server", "-f", str(file), check=file.stem != "engine-settings"
        )
        assert made.returncode == 0 or "give either source" in made.stderr, made.stderr
    clean.kubectl("delete", "namespace", "serval-live", "--wait")


def test_g1_an_upgrade_keeps_sources_and_an_uninstall_keeps_them_too(clean: Tools) -> None:
    clean.install("serval-live", "ruth")
    apply(clean, source("serval", "ruth"))
    before = clean.find("servalsource", "serval", "--namespace=ruth")
    assert before is not None
    clean.install("serval-live", "ruth", {"log": {"level": "debug"}})
    clean.helm("rollback", "serval-live", "1", "--namespace", "ruth")
    clean.helm("uninstall", "serval-live", "--namespace", "ruth", "--wait")
    after = clean.find("servalsource", "serval", "--namespace=ruth")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert clean.find("deployment", "serval-live", "--namespace=ruth") is None
    clean.install("serval-live", "ruth")  # takes the kept definitions as its own again
    adopted = clean.find("servalsource", "serval", "--namespace=ruth")
    assert adopted is not None
    assert adopted["metadata"]["uid"] == before["metadata"]["uid"]


def test_g1_an_upgrade_from_the_first_chart_keeps_everything_and_brings_new_fields_and_rights(
    clean: Tools, tmp_path: Path
) -> None:
    with tarfile.open(FIRST) as archive:
        archive.extractall(tmp_path, filter="data")
    clean.install("serval-live", "ruth", chart=tmp_path / "charts" / "serval-live")
    apply(clean, source("serval", "ruth"))
    apply(clean, engine("verses", "ruth"))
    kept = ("servalsource/serval", "translationengine/verses", "deployment/serval-live")
    before = [uid_of(clean, one) for one in kept]
    operator = "system:serviceaccount:ruth:serval-live"
    held = (operator, "patch", "revisions.serving.knative.dev", "ruth")
    assert not clean.may(*held)
    place = ["serval-live", str(CHART), "--namespace", "ruth", "--reset-then-reuse-values"]
    clean.helm("upgrade", *place)
    assert [uid_of(clean, one) for one in kept] == before
    assert clean.may(*held)
    window = {"warmWindows": [{"start": "0 8 * * 1-5", "end": "0 18 * * 1-5"}]}
    apply(clean, engine("verses", "ruth", **window))
    found = clean.find("translationengine/verses", "--namespace=ruth")
    assert found is not None
    assert found["spec"]["warmWindows"][0]["start"] == "0 8 * * 1-5", "the definitions are this version's"


def test_a6_a_namespace_with_sources_goes_after_the_operator_is_gone(clean: Tools) -> None:
    clean.install("serval-live", "jonah")
    apply(clean, source("serval", "jonah"))
    clean.helm("uninstall", "serval-live", "--namespace", "jonah", "--wait")
    clean.kubectl("delete", "namespace", "jonah", "--timeout=60s")
    assert clean.find("namespace", "jonah") is None


def test_g2_a_second_release_in_a_watched_namespace_is_refused(clean: Tools) -> None:
    clean.install("one", "ruth")
    refused = clean.install("two", "ruth", {"crds": {"enabled": False}}, check=False)
    assert refused.returncode != 0
    assert "exists and cannot be imported into the current release" in refused.stderr
    assert clean.find("deployment", "two-serval-live", "--namespace=ruth") is None


def test_g2_releases_of_one_name_live_in_two_namespaces(clean: Tools) -> None:
    clean.install("serval-live", "ruth")
    clean.install("serval-live", "boaz", {"crds": {"enabled": False}})
    assert clean.find("deployment", "serval-live", "--namespace=ruth") is not None
    assert clean.find("deployment", "serval-live", "--namespace=boaz") is not None


def test_a_source_from_values_is_made_by_the_second_step(clean: Tools) -> None:
    values = {"source": {"create": True, "spec": SPEC}}
    assert (
        "Install once with source.create=false"
        in clean.install("serval-live", "ruth", values, check=False).stderr
    )
    clean.install("serval-live", "ruth")
    clean.install("serval-live", "ruth", values)
    assert clean.find("servalsource", "serval", "--namespace=ruth") is not None


def test_g11_the_operator_may_do_its_work_and_nothing_else(clean: Tools) -> None:
    clean.install("serval-live", "ruth")
    operator = "system:serviceaccount:ruth:serval-live"
    wanted = [
        ("list", "translationengines.serval-live.dev"),
        ("patch", "translationengines.serval-live.dev/status"),
        ("patch", "inferenceservices.serving.kserve.io"),
        ("list", "revisions.serving.knative.dev"),
        ("patch", "revisions.serving.knative.dev"),
        ("delete", "revisions.serving.knative.dev"),
        ("create", "jobs.batch"),
        ("get", "secrets:serval-key"),
        ("update", "leases.coordination.k8s.io:serval-live-operator"),
        ("create", "events.events.k8s.io"),
    ]
    refused = [
        ("list", "secrets", "ruth"),
        ("delete", "secrets", "ruth"),
        ("get", "secrets:any", "knative-serving"),
        ("get", "secrets:any", "default"),
        ("create", "pods", "ruth"),
        ("create", "pods/exec", "ruth"),
        ("create", "clusterroles.rbac.authorization.k8s.io", "ruth"),
        ("delete", "services.serving.knative.dev", "ruth"),
        ("patch", "services.serving.knative.dev", "ruth"),
        ("delete", "servalsources.serval-live.dev", "ruth"),
        ("update", "leases.coordination.k8s.io:another", "ruth"),
        ("list", "translationengines.serval-live.dev", "default"),
        ("get", "configmaps:inferenceservice-config", "knative-serving"),
        ("list", "namespaces", "ruth"),
    ]
    assert [one for one in wanted if not clean.may(operator, *one, "ruth")] == []
    assert [one for one in refused if clean.may(operator, *one)] == []
    assert clean.may(operator, "get", "configmaps:config-autoscaler", "knative-serving")
    assert clean.may(operator, "get", "namespaces:kube-system", "")


def test_workloads_may_nothing(clean: Tools) -> None:
    clean.install("serval-live", "ruth")
    workload = "system:serviceaccount:ruth:serval-live-workload"
    assert not any(clean.may(workload, verb, "secrets", "ruth") for verb in ("get", "list", "watch"))
    assert not clean.may(workload, "get", "pods", "ruth")


def test_the_operators_pod_passes_the_restricted_pod_security_standard(clean: Tools) -> None:
    clean.kubectl("create", "namespace", "naomi")
    clean.kubectl("label", "namespace", "naomi", "pod-security.kubernetes.io/enforce=restricted")
    clean.install("serval-live", "naomi")
    made = ["--for=jsonpath={.status.replicas}=1", "deployment/serval-live", "--timeout=60s"]
    clean.kubectl("--namespace=naomi", "wait", *made)
    (pod,) = json.loads(clean.kubectl("--namespace=naomi", "get", "pods", "-o", "json").stdout)["items"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"
    another = clean.kubectl("--namespace=naomi", "run", "another", "--image=any", check=False)
    assert 'violates PodSecurity "restricted' in another.stderr, "the standard is enforced here"
