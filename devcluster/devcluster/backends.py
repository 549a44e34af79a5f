"""Which cluster the commands speak to.

    KUBECONFIG is set            that cluster, as it is
    a Docker engine answers      kind
    otherwise                    built from source on this machine

A KUBECONFIG that names our own cluster (as inside `devcluster exec`) means that one. SERVAL_LIVE_BACKEND (existing,
kind, source) decides before all of this.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster import containers
from devcluster.cluster import Cluster
from devcluster.errors import NotRunning, UsageError
from devcluster.existing import Existing
from devcluster.kind import Kind
from devcluster.programs import Programs

_DOCKER_ANSWER_S = 5.0


class Backend(Protocol):
    """What every kind of cluster can do."""

    @property
    def name(self) -> str:
        """One word for `status`."""

    def up(self) -> None:
        """Makes the cluster usable; returns at once where it is."""

    def down(self) -> None:
        """Removes what `up` made."""

    def is_up(self) -> bool:
        """Whether `up` would have nothing to do."""

    def is_warm(self) -> bool:
        """Whether `up` would build and install nothing."""

    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator. Raises NotRunning."""

    def load_image(self, name: str) -> None:
        """Makes an image of buildah's storage available to pods under the same name."""

    def exec_command(self, words: Sequence[str]) -> list[str]:
        """Command line that runs `words` where pods and services can be reached."""

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """kubectl as administrator; returns its output."""


@dataclass(frozen=True)
class Source:
    """The cluster that is built from source."""

    cluster: Cluster
    name: str = "source"

    def up(self) -> None:
        """See Cluster.up."""
        self.cluster.up()

    def down(self) -> None:
        """See Cluster.down."""
        self.cluster.down()

    def is_up(self) -> bool:
        """See Cluster.is_healthy."""
        return self.cluster.is_healthy()

    def is_warm(self) -> bool:
        """See Cluster.is_installed."""
        return self.cluster.is_installed()

    def kubeconfig(self) -> Path:
        """Usable inside the namespace only. Raises NotRunning."""
        path = self.cluster.settings.kubeconfig
        if not path.exists():
            raise NotRunning("the cluster is not running; start it with: devcluster up")
        return path

    def load_image(self, name: str) -> None:
        """From buildah's storage into containerd."""
        containers.load_image(self.cluster.node(), name)

    def exec_command(self, words: Sequence[str]) -> list[str]:
        """With the cluster's network and DNS; signals reach the program itself."""
        resolver = self.cluster.settings.state / "etc" / "resolv.conf"
        return self.cluster.sandbox().network_command(words, resolver)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run inside the namespace."""
        return self.cluster.node().kubectl(*arguments, stdin=stdin)


def choose(environment: Mapping[str, str], own_kubeconfig: Path, docker: Callable[[], bool]) -> str:
    """Name of the backend that the rules above pick. Raises UsageError for an unknown SERVAL_LIVE_BACKEND."""
    forced = environment.get("SERVAL_LIVE_BACKEND")
    if forced:
        if forced not in ("existing", "kind", "source"):
            raise UsageError(f"SERVAL_LIVE_BACKEND is {forced!r}; it may be existing, kind or source")
        return forced
    named = environment.get("KUBECONFIG")
    if named == str(own_kubeconfig):
        return "source"
    if named:
        return "existing"
    return "kind" if docker() else "source"


def current() -> Backend:
    """The backend for this environment."""
    cluster = Cluster.default()
    name = choose(os.environ, cluster.settings.kubeconfig, docker_answers)
    if name == "existing":
        return Existing(Programs.default())
    if name == "kind":
        return Kind(Programs.default())
    return Source(cluster)


def docker_answers() -> bool:
    """Whether there is a Docker engine, not only its client."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_DOCKER_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
