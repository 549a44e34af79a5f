"""Where devcluster keeps things, and the addresses of the cluster. Read from the environment once, at construction."""

import hashlib
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


def _chosen_state() -> Path | None:
    chosen = os.environ.get("SERVAL_LIVE_STATE")
    return Path(chosen).absolute() if chosen else None


@dataclass(frozen=True)
class Settings:
    """One cluster's places and addresses."""

    cache: Path = field(default_factory=_default_cache)
    """Binaries, images and snapshots, shared by all checkouts. SERVAL_LIVE_CACHE, else $XDG_CACHE_HOME/serval-live."""

    chosen_state: Path | None = field(default_factory=_chosen_state)
    """Folder of the running cluster if not the cache's own. SERVAL_LIVE_STATE; lets a second cluster run beside."""

    node_name: str = "serval-live"
    """Name of the only node."""

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
        for folder in (self.cache, self.state):
            if any(folder.is_relative_to(hidden) for hidden in ("/var", "/run")):
                # The node sees its own /var and /run in place of the host's.
                raise HostUnfit(f"{folder} would be hidden from the cluster: set SERVAL_LIVE_CACHE elsewhere")

    @property
    def state(self) -> Path:
        """Everything of the running cluster; removed by `down`."""
        return self.chosen_state or self.cache / "state"

    @property
    def cgroup(self) -> str:
        """Name of the cgroup that holds all pods; its own for each state folder."""
        return f"{self.node_name}-{hashlib.sha256(str(self.state).encode()).hexdigest()[:8]}"

    @property
    def lock(self) -> Path:
        """File that whoever starts or stops this cluster locks. Outside the state, which comes and goes."""
        return self.cache / f"{self.cgroup}.lock"

    @property
    def kubeconfig(self) -> Path:
        """Administrator's kubeconfig; its server address is reachable inside the namespace only."""
        return self.state / "admin.kubeconfig"
