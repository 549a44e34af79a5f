"""Where devcluster keeps things, and the addresses of the cluster. Read from the environment once, at construction."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.errors import HostUnfit


def _default_cache() -> Path:
    chosen = os.environ.get("SERVAL_LIVE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "serval-live"


@dataclass(frozen=True)
class Settings:
    """One cluster's places and addresses."""

    cache: Path = field(default_factory=_default_cache)
    """Binaries, images and snapshots, shared by all checkouts. SERVAL_LIVE_CACHE, else $XDG_CACHE_HOME/serval-live."""

    node_name: str = "serval-live"
    """Name of the only node, and of the cgroup that holds all pods."""

    node_address: str = "10.244.0.1"
    """Address of the node inside the namespace: the bridge that pods are attached to."""

    pod_range: str = "10.244.0.0/24"
    """250 pods are more than a kubelet takes by default (110)."""

    service_range: str = "10.96.0.0/16"
    """Kubernetes' own default range."""

    dns_address: str = "10.96.0.10"
    """Service address of CoreDNS; written into resolv.conf of everything inside the namespace."""

    api_port: int = 6443
    """The namespace is ours alone, so the usual port is always free."""

    def __post_init__(self) -> None:
        for forbidden in ("/var", "/run"):
            if self.cache.is_relative_to(forbidden):
                # The node sees its own /var and /run in place of the host's.
                raise HostUnfit(
                    f"the cache {self.cache} lies below {forbidden}: set SERVAL_LIVE_CACHE elsewhere"
                )

    @property
    def state(self) -> Path:
        """Everything of the running cluster; removed by `down`."""
        return self.cache / "state"

    @property
    def kubeconfig(self) -> Path:
        """Administrator's kubeconfig; its server address is reachable inside the namespace only."""
        return self.state / "admin.kubeconfig"
