"""The cluster that is built from source: the order in which it comes up, stops, and goes away."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import cgroups, containers, host_packages, install, network, program_images, state
from devcluster.errors import HostUnfit, NotRunning
from devcluster.go_modules import CLUSTER_MODULES
from devcluster.node import PROGRAMS, Node, write_files
from devcluster.programs import Programs, locked
from devcluster.progress import say, step
from devcluster.sandbox import Sandbox
from devcluster.settings import Settings
from devcluster.snapshot import Snapshots
from devcluster.snapshot import key as snapshot_key
from devcluster.waiting import until

_PODS_READY_S = 240.0
_SYSTEM_NAMESPACES = ("kube-system", "knative-serving", "kourier-system", "kserve", "s3")


@dataclass(frozen=True)
class Cluster:
    """The cluster of one state folder; at most one runs."""

    settings: Settings
    programs: Programs

    @classmethod
    def default(cls) -> "Cluster":
        """For the cache of this user and the pins of this checkout."""
        programs = Programs.default()
        return cls(programs.settings, programs)

    def up(self) -> None:
        """Makes the cluster run; returns at once where it does. Raises HostUnfit, CommandFailed, NotReady."""
        require_host()
        with locked(self.settings.lock):
            if self.is_healthy():
                return
            begin = time.monotonic()
            self._remove()  # what an interrupted start may have left
            images = self._prepare()
            snapshots, name = Snapshots(self.settings), snapshot_key([image.name for image in images])
            if not snapshots.has(name):
                self._install(images)
                snapshots.save(name)
            else:
                state.create(self.settings)
                snapshots.restore(name)
            self._start()
            say(
                f"cluster ready after {time.monotonic() - begin:.0f} s; KUBECONFIG is {self.settings.kubeconfig}"
            )

    def down(self) -> None:
        """Ends everything and removes all of it: processes, namespaces, mounts, cgroups, state. Idempotent."""
        require_host()
        with locked(self.settings.lock):
            self._remove()

    def sandbox(self) -> Sandbox:
        """The running sandbox. Raises NotRunning."""
        sandbox = Sandbox.find(self.settings.state)
        if sandbox is None:
            raise NotRunning("the cluster is not running; start it with: devcluster up")
        return sandbox

    def node(self) -> Node:
        """The running node. Raises NotRunning."""
        return Node(self.settings, self.programs, self.sandbox())

    def is_healthy(self) -> bool:
        """Whether all programs of the node run and the API answers."""
        sandbox = Sandbox.find(self.settings.state)
        if sandbox is None:
            return False
        return all(sandbox.named(program) for program in PROGRAMS) and self.node().answers()

    def is_installed(self) -> bool:
        """Whether there is a snapshot of exactly this cluster, so that `up` only starts it."""
        names = [f"{name}.tar" for name in program_images.archive_names(self.programs)]
        return Snapshots(self.settings).has(snapshot_key(names))

    def _prepare(self) -> list[Path]:
        """Everything that is built or fetched, none of it needing a running cluster. Returns the images' archives."""
        host_packages.ensure(*host_packages.NODE_PROGRAMS)
        self.programs.build_all(CLUSTER_MODULES)
        return program_images.archives(self.programs)

    def _install(self, images: Sequence[Path]) -> None:
        """A cluster from nothing, stopped again in the state that a snapshot wants."""
        state.create(self.settings)
        node = self._boot()
        with step("containerd, images"):
            node.start_containerd()
            containers.import_archives(node, images)
        with step("etcd, apiserver, controllers, scheduler"):
            node.start_control_plane()
        node.start_kubelet()
        target = node.target()
        install.everything(target)
        install.wait_webhooks(target)
        with step("stopping the installed cluster"):
            self._freeze(node)

    def _start(self) -> None:
        """The installed cluster, out of a restored state."""
        with step("node and control plane"):
            node = self._boot()
            node.start_containerd()
            node.start_control_plane()
            node.start_kubelet()
        with step("all pods ready"):
            until("all pods", lambda: _all_ready(node), timeout_s=_PODS_READY_S, pause_s=0.5)
            node.declare_storage()
        with step("webhooks answer"):
            install.wait_webhooks(node.target())

    def _boot(self) -> Node:
        write_files(self.settings)
        sandbox = Sandbox.create(self.settings.state, self.programs.path("pause"))
        network.set_up(sandbox, self.settings)
        return Node(self.settings, self.programs, sandbox)

    def _freeze(self, node: Node) -> None:
        """Stops a cluster so that nothing in its state speaks of this run: no pods, no leases of controllers."""
        sandbox = node.sandbox
        # Without controllers nobody replaces the pods that the kubelet now removes through the container runtime.
        for program in ("kube-controller-manager", "kube-scheduler"):
            sandbox.stop(program)
        node.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--timeout=120s")
        for namespace in ("knative-serving", "kserve"):
            # A new controller would wait a minute for the lease of one that is no more.
            node.kubectl("delete", "leases", "--all", f"--namespace={namespace}")
        for program in ("kubelet", "kube-proxy", "containerd", "kube-apiserver", "etcd"):
            sandbox.stop(program)
        sandbox.destroy()
        cgroups.remove(self.settings)

    def _remove(self) -> None:
        sandbox = Sandbox.find(self.settings.state)
        if sandbox is not None:
            with step("ending all processes of the cluster"):
                sandbox.destroy()
        cgroups.remove(self.settings)
        if self.settings.state.exists():
            with step("removing the cluster's files"):
                state.remove(self.settings)


def require_host() -> None:
    """Raises HostUnfit unless this is Linux and we are root: namespaces and mounts need both."""
    if sys.platform != "linux":
        raise HostUnfit("building a cluster from source needs Linux; elsewhere use kind or set KUBECONFIG")
    if os.geteuid() != 0:
        raise HostUnfit(
            "building a cluster from source needs root (namespaces, mounts); use sudo, kind or KUBECONFIG"
        )


def _all_ready(node: Node) -> bool:
    """Whether every Deployment of the system has a pod, and all pods there are ready."""
    deployments = json.loads(node.kubectl("get", "deployments", "--all-namespaces", "--output=json"))["items"]
    pods = json.loads(node.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    for namespace in _SYSTEM_NAMESPACES:
        wanted = sum(
            each["spec"]["replicas"] for each in deployments if each["metadata"]["namespace"] == namespace
        )
        present = [each for each in pods if each["metadata"]["namespace"] == namespace]
        if len(present) < wanted or not all(_is_ready(each) for each in present):
            return False
    return True


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
