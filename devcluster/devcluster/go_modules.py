"""Which Go programs devcluster needs, and the small modules that pin their versions.

A module of our own for each group of programs lets Go's checksum database verify every source, and shares one
compilation of common packages. Pure: this file only describes; `programs` builds.
"""

import hashlib
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.versions import Versions

_KUBERNETES_STAGING = (
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go",
    "cloud-provider", "cluster-bootstrap", "code-generator", "component-base", "component-helpers",
    "controller-manager", "cri-api", "cri-client", "csi-translation-lib", "dynamic-resource-allocation",
    "endpointslice", "externaljwt", "kms", "kube-aggregator", "kube-controller-manager", "kube-proxy",
    "kube-scheduler", "kubectl", "kubelet", "metrics", "mount-utils", "pod-security-admission",
    "sample-apiserver", "sample-cli-plugin", "sample-controller",
)  # fmt: skip

_LANGUAGE = "1.26.0"
"""Language version of our modules; KServe names its own."""


@dataclass(frozen=True)
class GoModule:
    """One generated module: `tools` maps the name of a binary to its package, `roots` the modules it comes from."""

    name: str
    version: str
    roots: tuple[tuple[str, str], ...]
    tools: tuple[tuple[str, str], ...]
    go: str = _LANGUAGE
    replace: tuple[tuple[str, str], ...] = ()
    exclude: tuple[str, ...] = ()
    link_variables: tuple[tuple[str, str], ...] = field(default=())
    """Package variables set at link time, such as the version that a server reports."""
    own_source: str = ""
    """Text of a main.go of ours; such a module has no requirements."""

    def packages(self) -> list[str]:
        """Arguments for `go get -tool`: each package at the version of the module that holds it."""
        return [f"{package}@{self._version_of(package)}" for _, package in self.tools]

    def go_mod(self) -> str:
        """Text of the go.mod before its requirements are resolved."""
        lines = [f"module serval-live.dev/devcluster/{self.name}", "", f"go {self.go}", ""]
        lines += [f"replace {old} => {new}" for old, new in self.replace]
        lines += [f"exclude {entry}" for entry in self.exclude]
        return "\n".join(lines) + "\n"

    def key(self, go_version: str) -> str:
        """Name of the cache folder: anything that changes a binary changes it."""
        parts: list[object] = [
            self.go_mod(),
            self.roots,
            self.tools,
            self.link_variables,
            go_version,
            platform.machine(),
        ]
        if self.own_source:
            parts.append(self.own_source)
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:12]}"

    def _root_of(self, package: str) -> str:
        return max((root for root, _ in self.roots if package.startswith(root)), key=len)

    def _version_of(self, package: str) -> str:
        return dict(self.roots)[self._root_of(package)]


def _kubernetes(versions: Versions) -> GoModule:
    release, staging = f"v{versions.kubernetes}", f"v{versions.kubernetes_staging}"
    major, minor, _ = versions.kubernetes.split(".")
    # Knative and Helm ask the server for its version and refuse one that says nothing.
    component, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    variables = [
        (f"{package}.{variable}", value)
        for package in (component, client)
        for variable, value in (("gitVersion", release), ("gitMajor", major), ("gitMinor", minor))
    ]
    programs = [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kubectl",
    ]
    return GoModule(
        name="kubernetes",
        version=versions.kubernetes,
        roots=(("k8s.io/kubernetes", release),),
        tools=tuple((program, f"k8s.io/kubernetes/cmd/{program}") for program in programs),
        replace=tuple((f"k8s.io/{part}", f"k8s.io/{part} {staging}") for part in _KUBERNETES_STAGING),
        link_variables=tuple(variables),
    )


def _knative(versions: Versions) -> GoModule:
    serving = f"v{versions.knative_serving}"
    serving_programs = ["controller", "autoscaler", "activator", "webhook", "queue"]
    return GoModule(
        name="knative",
        version=versions.knative_serving,
        roots=(("knative.dev/serving", serving), ("knative.dev/net-kourier", f"v{versions.net_kourier}")),
        tools=(
            *((f"knative-{program}", f"knative.dev/serving/cmd/{program}") for program in serving_programs),
            ("kourier", "knative.dev/net-kourier/cmd/kourier"),
        ),
    )


def _kserve(versions: Versions) -> GoModule:
    return GoModule(
        name="kserve",
        version=versions.kserve,
        roots=(("github.com/kserve/kserve", f"v{versions.kserve}"),),
        tools=(("kserve-manager", "github.com/kserve/kserve/cmd/manager"),),
        go=versions.kserve_go,
        replace=versions.kserve_replace,
        exclude=versions.kserve_exclude,
    )


def _single(name: str, version: str, root: str, package: str) -> GoModule:
    return GoModule(name=name, version=version, roots=((root, f"v{version}"),), tools=((name, package),))


def _pause() -> GoModule:
    source = (Path(__file__).parent / "pause/main.go").read_text(encoding="utf-8")
    return GoModule("pause", version="1", roots=(), tools=(("pause", "."),), own_source=source)


def modules(versions: Versions) -> dict[str, GoModule]:
    """All modules by name, in the order in which a cold build is most useful to those who wait for it."""
    gateway, grpcurl = "github.com/versity/versitygw", "github.com/fullstorydev/grpcurl"
    every = [
        _pause(),
        _kubernetes(versions),
        _single("versitygw", versions.versitygw, gateway, f"{gateway}/cmd/versitygw"),
        _knative(versions),
        _kserve(versions),
        _single("etcd", versions.etcd, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _single("coredns", versions.coredns, "github.com/coredns/coredns", "github.com/coredns/coredns"),
        _single("helm", versions.helm, "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm"),
        _single("grpcurl", versions.grpcurl, grpcurl, f"{grpcurl}/cmd/grpcurl"),
        _single("kind", versions.kind, "sigs.k8s.io/kind", "sigs.k8s.io/kind"),
    ]
    return {module.name: module for module in every}


RARE = ("kind", "etcd")
"""Built where they are used: with a Docker engine, and by benchmarks with many objects."""

CLUSTER_MODULES = ("pause", "kubernetes", "versitygw", "knative", "kserve", "coredns", "helm")
"""What a cluster needs; Helm for the chart that is installed next. kind is built where it is used."""

GROUPS = {"fast": ("pause", "kubernetes", "versitygw", "helm", "grpcurl"), "cluster": CLUSTER_MODULES}
"""Names for several modules; "fast" is what tests without a cluster use."""
