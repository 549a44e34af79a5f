"""The command lines of etcd and kube-apiserver, and how to see that they are ready.

Shared by the control plane on loopback and by the full cluster, so that both answer alike.
"""

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from devcluster.certificates import Authority, service_account_key, write_kubeconfig

ADMINISTRATORS = "system:masters"
_LOOPBACK = "127.0.0.1"

_AUDIT_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


@dataclass(frozen=True)
class Endpoints:
    """Where the two servers listen. etcd knows no passwords here, so it stays on loopback."""

    address: str
    """Of the apiserver."""
    etcd_port: int
    etcd_peer_port: int
    api_port: int

    @property
    def server(self) -> str:
        """URL of the apiserver."""
        return f"https://{self.address}:{self.api_port}"


@dataclass(frozen=True)
class ControlPlaneFiles:
    """Layout of a control plane's folder: keys below `pki`, data, logs, kubeconfigs."""

    root: Path

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        """etcd's data."""
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        """One file a program."""
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        """JSON lines at level Metadata, one a request."""
        return self.logs / "audit.log"

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of an administrator."""
        return self.root / "admin.kubeconfig"

    def authority(self) -> Authority:
        """The cluster's authority."""
        return Authority.read(self.pki)

    def prepare(self, endpoints: Endpoints, hosts: list[str]) -> None:
        """Makes keys, certificates and the administrator's kubeconfig; keeps what exists."""
        self.logs.mkdir(parents=True, exist_ok=True)
        if not (self.pki / "ca.key").exists():
            authority = Authority.create()
            authority.server("kube-apiserver", [endpoints.address, *hosts]).write(self.pki, "apiserver")
            authority.client("kube-apiserver", [ADMINISTRATORS]).write(self.pki, "apiserver-client")
            key = self.pki / "service-account.key"
            key.touch(mode=0o600)
            key.write_bytes(service_account_key())
            (self.pki / "audit.yaml").write_text(_AUDIT_POLICY, encoding="utf-8")
            authority.pair.write(self.pki, "ca")
        authority = self.authority()
        admin = authority.client("admin", [ADMINISTRATORS])
        write_kubeconfig(self.admin_kubeconfig, endpoints.server, authority, admin)


def etcd_command(binary: Path, files: ControlPlaneFiles, endpoints: Endpoints) -> list[str | Path]:
    """etcd without fsync: nothing here must survive a power cut, and disks of test machines are slow."""
    client = f"http://{_LOOPBACK}:{endpoints.etcd_port}"
    peer = f"http://{_LOOPBACK}:{endpoints.etcd_peer_port}"
    return [
        binary,
        "--name=serval-live",
        f"--data-dir={files.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=serval-live={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_command(
    binary: Path, files: ControlPlaneFiles, endpoints: Endpoints, service_range: str
) -> list[str | Path]:
    """kube-apiserver with RBAC, an audit log, and no node names to resolve."""
    pki = files.pki
    return [
        binary,
        f"--etcd-servers=http://{_LOOPBACK}:{endpoints.etcd_port}",
        f"--bind-address={endpoints.address}",
        f"--advertise-address={endpoints.address}",
        f"--secure-port={endpoints.api_port}",
        f"--service-cluster-ip-range={service_range}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--profiling=false",
        # Nothing on these machines resolves the node's name.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/apiserver-client.crt",
        f"--kubelet-client-key={pki}/apiserver-client.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/service-account.key",
        f"--service-account-signing-key-file={pki}/service-account.key",
        f"--audit-policy-file={pki}/audit.yaml",
        f"--audit-log-path={files.audit_log}",
        # MB a file; an end-to-end run writes some 50. Two older files stay: days of use fill no disk.
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=2",
        # An owner wants to see changes soon; a test does even more.
        "--event-ttl=3h",
        "--v=1",
    ]


def answers(files: ControlPlaneFiles, endpoints: Endpoints, path: str = "/readyz") -> bool:
    """Whether an administrator's GET of `path` succeeds. Any refusal means "not yet"."""
    context = ssl.create_default_context(cafile=str(files.pki / "ca.crt"))
    context.load_cert_chain(files.pki / "apiserver-client.crt", files.pki / "apiserver-client.key")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(f"{endpoints.server}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
