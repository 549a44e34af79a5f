"""The programs of the only node, in the order in which they need each other, all inside the sandbox."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster import cgroups, host_packages, network, node_files
from devcluster.api_server import (
    ControlPlaneFiles,
    Endpoints,
    apiserver_command,
    etcd_command,
)
from devcluster.certificates import write_kubeconfig
from devcluster.errors import CommandFailed
from devcluster.install import Target
from devcluster.programs import Programs
from devcluster.sandbox import Inmate, Sandbox
from devcluster.settings import Settings
from devcluster.waiting import until

_ETCD_PORT, _ETCD_PEER_PORT = 2379, 2380
_READY_S = 120.0
_SERVICE_API = "10.96.0.1"
"""First address of the service range: the Service `kubernetes`."""

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
)
"""All that must run."""

CONTAINERD_ADDRESS = node_files.CONTAINERD_SOCKET


@dataclass(frozen=True)
class Node:
    """One node and its control plane inside a sandbox."""

    settings: Settings
    programs: Programs
    sandbox: Sandbox

    @property
    def files(self) -> ControlPlaneFiles:
        """Keys, data and logs in the cluster's state folder."""
        return ControlPlaneFiles(self.settings.state)

    @property
    def endpoints(self) -> Endpoints:
        """The apiserver on the node's address."""
        return Endpoints(self.settings.node_address, _ETCD_PORT, _ETCD_PEER_PORT, self.settings.api_port)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """kubectl as administrator, run inside."""
        program = self.programs.path("kubectl")
        return self.sandbox.run(
            [program, f"--kubeconfig={self.settings.kubeconfig}", *arguments], stdin=stdin
        )

    def ctr(self, *arguments: str | Path) -> str:
        """containerd's client in the namespace of Kubernetes."""
        return self.sandbox.run(["ctr", f"--address={CONTAINERD_ADDRESS}", "--namespace=k8s.io", *arguments])

    def target(self) -> Target:
        """This node as something to install into."""
        return Target(self.kubectl, self.programs, self.files.authority(), self.settings.dns_address)

    def start_control_plane(self) -> None:
        """etcd, apiserver, controllers, scheduler; returns when the API answers."""
        etcd = self._start("etcd", etcd_command(host_packages.path("etcd"), self.files, self.endpoints))
        command = apiserver_command(
            self.programs.path("kube-apiserver"), self.files, self.endpoints, self.settings.service_range
        )
        apiserver = self._start("kube-apiserver", command)

        def look() -> bool:
            etcd.require_running()
            apiserver.require_running()
            return self.answers()

        until("kube-apiserver", look, timeout_s=_READY_S)
        self._start("kube-controller-manager", self._controllers_command())
        self._start("kube-scheduler", self._scheduler_command())

    def start_containerd(self) -> None:
        """containerd; returns when it answers."""
        configuration = self.settings.state / "etc" / "containerd.toml"
        daemon = self._start("containerd", [host_packages.path("containerd"), f"--config={configuration}"])

        def look() -> bool:
            daemon.require_running()
            try:
                self.ctr("version")
            except CommandFailed:
                return False
            return True

        until("containerd", look, timeout_s=_READY_S)

    def start_kubelet(self) -> None:
        """kubelet and kube-proxy; does not wait, since the node is ready before its pods are."""
        cgroups.create(self.settings)
        state, kubelet = self.settings.state, self.programs.path("kubelet")
        command: list[str | Path] = [
            kubelet,
            f"--config={state}/etc/kubelet.yaml",
            f"--kubeconfig={state}/kubelet.kubeconfig",
            f"--hostname-override={self.settings.node_name}",
            f"--node-ip={self.settings.node_address}",
        ]
        self._start("kubelet", command)
        self._start("kube-proxy", [self.programs.path("kube-proxy"), f"--config={state}/etc/kube-proxy.yaml"])

    def declare_storage(self) -> None:
        """Tell the scheduler how much disk pods may ask for.

        The kubelet says nothing of it where it cannot isolate local storage, and a pod that asks for any fits nowhere.
        """
        mebibytes = shutil.disk_usage(self.settings.state).free >> 20
        change = [
            {"op": "add", "path": f"/status/{kind}/ephemeral-storage", "value": f"{mebibytes}Mi"}
            for kind in ("capacity", "allocatable")
        ]
        self.kubectl(
            "patch",
            "node",
            self.settings.node_name,
            "--subresource=status",
            "--type=json",
            f"--patch={json.dumps(change)}",
        )

    def _start(self, name: str, command: list[str | Path]) -> Inmate:
        return self.sandbox.start(command, self.files.logs / f"{name}.log")

    def answers(self) -> bool:
        """Whether the API is ready."""
        try:
            return self.kubectl("get", "--raw=/readyz").strip() == "ok"
        except CommandFailed:
            return False

    def _controllers_command(self) -> list[str | Path]:
        pki = self.files.pki
        return [
            self.programs.path("kube-controller-manager"),
            f"--kubeconfig={self.settings.state}/kube-controller-manager.kubeconfig",
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/service-account.key",
            "--use-service-account-credentials=true",
            f"--cluster-cidr={self.settings.pod_range}",
            f"--service-cluster-ip-range={self.settings.service_range}",
            "--allocate-node-cidrs=false",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]

    def _scheduler_command(self) -> list[str | Path]:
        return [
            self.programs.path("kube-scheduler"),
            f"--kubeconfig={self.settings.state}/kube-scheduler.kubeconfig",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]


_USERS = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
}


def write_files(settings: Settings) -> None:
    """Everything that the programs read at start: certificates, kubeconfigs, configuration. Keeps existing keys."""
    files = ControlPlaneFiles(settings.state)
    endpoints = Endpoints(settings.node_address, _ETCD_PORT, _ETCD_PEER_PORT, settings.api_port)
    service = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    files.prepare(endpoints, [_SERVICE_API, "127.0.0.1", "localhost", *service])
    authority = files.authority()
    authority.server(settings.node_name, [settings.node_address, settings.node_name]).write(
        files.pki, "kubelet"
    )
    users = {**_USERS, "kubelet": (f"system:node:{settings.node_name}", ("system:nodes",))}
    for name, (user, groups) in users.items():
        client = authority.client(user, groups)
        write_kubeconfig(settings.state / f"{name}.kubeconfig", endpoints.server, authority, client)
    texts = {
        "resolv.conf": network.resolv_conf(settings),
        "containerd.toml": node_files.containerd(settings),
        "cni/10-bridge.conflist": node_files.cni(settings),
        "kubelet.yaml": node_files.kubelet(settings, files.pki),
        "kube-proxy.yaml": node_files.kube_proxy(
            settings, settings.state / "kube-proxy.kubeconfig", bridge_filtered=network.bridge_filtered()
        ),
    }
    for name, text in texts.items():
        path = settings.state / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
