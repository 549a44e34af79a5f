"""The network inside the namespace: loopback, the bridge of the pods with the node's address, forwarding.

There is no way out of the namespace, on purpose: a test that passes here reaches nothing but the cluster.
"""

from pathlib import Path

from devcluster.sandbox import Sandbox
from devcluster.settings import Settings

BRIDGE = "cni0"


def bridge_filtered() -> bool:
    """Whether the kernel shows bridged packets to iptables (module br_netfilter, loaded or built in)."""
    return Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists()


def resolv_conf(settings: Settings) -> str:
    """Only the cluster's own DNS, so that an unknown name is refused at once and not after a time-out."""
    search = "search svc.cluster.local cluster.local"
    return f"nameserver {settings.dns_address}\n{search}\noptions ndots:3 timeout:5 attempts:3\n"


def set_up(sandbox: Sandbox, settings: Settings) -> None:
    """Brings the network of a fresh sandbox up."""
    prefix = settings.pod_range.split("/")[1]
    ip = ["ip"]
    sandbox.run([*ip, "link", "set", "lo", "up"])
    sandbox.run([*ip, "link", "add", BRIDGE, "type", "bridge"])
    sandbox.run([*ip, "address", "add", f"{settings.node_address}/{prefix}", "dev", BRIDGE])
    sandbox.run([*ip, "link", "set", BRIDGE, "up"])
    # Kubernetes' programs look for the interface of the default route to learn the node's address.
    sandbox.run([*ip, "route", "add", "default", "dev", BRIDGE])
    sandbox.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
