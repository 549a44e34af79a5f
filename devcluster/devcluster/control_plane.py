"""etcd and kube-apiserver on loopback: a real API for tests, ready in seconds, without nodes.

What it lacks on purpose: a scheduler, kubelets, and (unless asked for) controllers. Objects stay as they are written;
a test plays the part of whoever would write a status. Namespaces are deleted and owner references honoured only with
`controllers=True`.

Needs no root and no network namespace, so several can run beside each other.
"""

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from devcluster import crds, host_packages
from devcluster.api_server import (
    ADMINISTRATORS,
    ControlPlaneFiles,
    Endpoints,
    answers,
    apiserver_command,
    etcd_command,
)
from devcluster.certificates import write_kubeconfig
from devcluster.ports import LOOPBACK, free_ports
from devcluster.processes import Daemon
from devcluster.programs import Programs
from devcluster.waiting import until

_READY_S = 240.0
_SERVICE_RANGE = "10.96.0.0/16"


@dataclass
class ControlPlane:
    """A running pair of etcd and kube-apiserver. Use as a context manager, or call `stop`."""

    files: ControlPlaneFiles
    endpoints: Endpoints
    programs: Programs
    etcd: Daemon
    apiserver: Daemon
    controllers: Daemon | None = None
    _kubeconfigs: dict[tuple[str, tuple[str, ...]], Path] = field(default_factory=dict)

    @classmethod
    def start(cls, workdir: Path, *, controllers: bool = False, large: bool = False) -> Self:
        """Starts both servers below `workdir` and returns when the API answers.

        `large` is for thousands of objects: it builds an etcd as clusters have today. With Debian's 3.4 the API
        server reads every list from etcd, whatever its selector, instead of its own memory.

        With `controllers`, kube-controller-manager runs too: owner references, namespaces, Jobs, service accounts.
        Raises NotReady with the end of a log where a server does not come up.
        """
        programs = Programs.default()
        if large:
            store = programs.path("etcd")
        else:
            host_packages.ensure("etcd")
            store = host_packages.path("etcd")
        binary = programs.path("kube-apiserver")
        etcd_port, peer_port, api_port = free_ports(3)
        endpoints = Endpoints(LOOPBACK, etcd_port, peer_port, api_port)
        files = ControlPlaneFiles(workdir.absolute())
        files.prepare(endpoints, ["localhost", "kubernetes.default.svc"])
        etcd = _start_etcd(store, files, endpoints)
        command = apiserver_command(binary, files, endpoints, _SERVICE_RANGE)
        if not controllers:
            # Without the controller that makes "default" accounts this plugin refuses every pod.
            command.append("--disable-admission-plugins=ServiceAccount")
        apiserver = Daemon.start("kube-apiserver", command, log=files.logs / "apiserver.log")
        plane = cls(files, endpoints, programs, etcd, apiserver)
        try:
            plane._wait_ready()
            if controllers:
                plane._start_controllers()
        except BaseException:
            plane.stop()
            raise
        return plane

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator (bound to system:masters, no RBAC applies)."""
        return self.files.admin_kubeconfig

    @property
    def audit_log(self) -> Path:
        """Every finished request as a JSON line at level Metadata; written before its answer is sent."""
        return self.files.audit_log

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Kubeconfig of any user; what that user may do is RBAC's affair."""
        wanted = (user, groups)
        if wanted not in self._kubeconfigs:
            authority = self.files.authority()
            path = self.files.root / "users" / f"{len(self._kubeconfigs)}.kubeconfig"
            client = authority.client(user, groups)
            self._kubeconfigs[wanted] = write_kubeconfig(path, self.endpoints.server, authority, client)
        return self._kubeconfigs[wanted]

    def install_resource_types(self) -> None:
        """The CRDs of Knative and KServe, served when this returns."""
        crds.install(self.kubeconfig, self.programs)

    def restart_apiserver(self, *, kill: bool = False) -> None:
        """Ends the apiserver (abruptly with `kill`) and starts it again on the same port with the same data."""
        self.stop_apiserver(kill=kill)
        self.start_apiserver()

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """Ends the apiserver alone; etcd keeps the data."""
        if kill:
            self.apiserver.kill()
        else:
            self.apiserver.stop()

    def start_apiserver(self) -> None:
        """Starts an apiserver that was stopped and waits for it. Does nothing where it runs."""
        if self.apiserver.process.poll() is None:
            return
        words = [str(word) for word in self.apiserver.process.args]  # type: ignore[union-attr]
        self.apiserver = Daemon.start("kube-apiserver", words, log=self.apiserver.log)
        self._wait_ready()

    def stop(self) -> None:
        """Ends everything. Idempotent; files stay for whoever wants to read them."""
        if self.controllers is not None:
            self.controllers.kill()
        # The apiserver waits a minute for open watches when asked politely; nothing of its is worth that.
        self.apiserver.kill()
        self.etcd.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_ready(self) -> None:
        """Ready, and with the namespace `default`, which appears a moment later and is written into at once."""

        def look() -> bool:
            self.etcd.require_running()
            self.apiserver.require_running()
            return all(
                answers(self.files, self.endpoints, path)
                for path in ("/readyz", "/api/v1/namespaces/default")
            )

        until("kube-apiserver", look, timeout_s=_READY_S, pause_s=0.05)

    def _start_controllers(self) -> None:
        pki = self.files.pki
        authority = self.files.authority()
        client = authority.client("system:kube-controller-manager", [ADMINISTRATORS])
        kubeconfig = write_kubeconfig(
            self.files.root / "controllers.kubeconfig", self.endpoints.server, authority, client
        )
        (port,) = free_ports(1)
        command: list[str | Path] = [
            self.programs.path("kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            "--leader-elect=false",
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/service-account.key",
            "--use-service-account-credentials=false",
        ]
        self.controllers = Daemon.start("controllers", command, log=self.files.logs / "controllers.log")


def _start_etcd(binary: Path, files: ControlPlaneFiles, endpoints: Endpoints) -> Daemon:
    command = etcd_command(binary, files, endpoints)
    return Daemon.start("etcd", command, log=files.logs / "etcd.log")
