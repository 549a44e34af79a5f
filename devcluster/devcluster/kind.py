"""The same installation on kind, for machines where a Docker engine answers.

kind brings Kubernetes and DNS; everything above them is installed from the same manifests with the same images. kind
itself is a Go program and is built like the others.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import images, install, program_images
from devcluster.certificates import Authority
from devcluster.errors import CommandFailed, NotRunning
from devcluster.go_modules import CLUSTER_MODULES
from devcluster.programs import Programs
from devcluster.progress import step
from devcluster.shell import run

_NAME = "serval-live"
_NODE = f"{_NAME}-control-plane"


@dataclass(frozen=True)
class Kind:
    """A kind cluster of one node."""

    programs: Programs
    name: str = "kind"

    @property
    def _file(self) -> Path:
        return self.programs.settings.cache / "kind.kubeconfig"

    def up(self) -> None:
        """Creates the cluster, loads the images, installs. Does nothing where it is complete."""
        if self.is_up():
            return
        self.programs.build_all(CLUSTER_MODULES)
        archives = program_images.archives(self.programs)
        if not self._exists():
            with step("kind: creating the cluster"):
                self._kind(
                    "create", "cluster", f"--name={_NAME}", f"--kubeconfig={self._file}", "--wait=180s"
                )
        with step("kind: loading images"):
            for archive in archives:
                self._kind("load", "image-archive", f"--name={_NAME}", archive)
        target = install.Target(self.kubectl, self.programs, Authority.create(), dns_address=None)
        install.everything(target)
        install.wait_webhooks(target)
        # The last thing done, and so the sign that all of it was.
        self.kubectl("label", "namespace", "kserve", "serval-live.dev/installed=true", "--overwrite")

    def down(self) -> None:
        """Deletes the cluster."""
        if self._exists():
            with step("kind: deleting the cluster"):
                self._kind("delete", "cluster", f"--name={_NAME}")
        self._file.unlink(missing_ok=True)

    def is_up(self) -> bool:
        """Whether the installation was completed and the API answers."""
        if not self._exists() or not self._file.exists():
            return False
        try:
            labels = self.kubectl("get", "namespace", "kserve", "--output=jsonpath={.metadata.labels}")
        except CommandFailed:
            return False
        return bool(json.loads(labels or "{}").get("serval-live.dev/installed"))

    def is_warm(self) -> bool:
        """Whether it is up; there is no snapshot of a cluster like this."""
        return self.is_up()

    def kubeconfig(self) -> Path:
        """kind's kubeconfig. Raises NotRunning."""
        if not self._file.exists():
            raise NotRunning("the kind cluster is not running; start it with: devcluster up")
        return self._file

    def load_image(self, name: str) -> None:
        """From buildah's storage into the node."""
        archive = self.programs.settings.cache / "kind-image.tar"
        with step(f"loading {name} into kind"):
            try:
                images.export(name, archive)
                self._kind("load", "image-archive", f"--name={_NAME}", archive)
            finally:
                archive.unlink(missing_ok=True)

    def exec_command(self, words: Sequence[str]) -> list[str]:
        """Inside the network of the node's container: pods and services are reachable by address there."""
        pid = run(["docker", "inspect", "--format={{.State.Pid}}", _NODE]).strip()
        return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *words]

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """kubectl as administrator."""
        return run([self.programs.path("kubectl"), f"--kubeconfig={self._file}", *arguments], stdin=stdin)

    def _exists(self) -> bool:
        return _NAME in self._kind("get", "clusters").split()

    def _kind(self, *arguments: str | Path) -> str:
        return run([self.programs.path("kind"), *arguments])
