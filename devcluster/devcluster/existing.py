"""A cluster of somebody else, named by KUBECONFIG. It is checked and given an S3 server; nothing else is installed."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import install, own_manifests
from devcluster.certificates import Authority
from devcluster.errors import CommandFailed, HostUnfit, UsageError
from devcluster.manifests import Images
from devcluster.programs import Programs
from devcluster.progress import step
from devcluster.shell import run

_NEEDED = ("services.serving.knative.dev", "inferenceservices.serving.kserve.io")


@dataclass(frozen=True)
class Existing:
    """The cluster of the KUBECONFIG variable."""

    programs: Programs
    name: str = "existing"

    def up(self) -> None:
        """Checks that Knative and KServe are there and adds the S3 server. Raises HostUnfit for what is missing."""
        for needed in _NEEDED:
            try:
                self.kubectl("get", "crd", needed, "--output=name")
            except CommandFailed as failed:
                raise HostUnfit(
                    f"the cluster of KUBECONFIG serves no {needed}; install it there first"
                ) from failed
        if not self.is_up():
            with step("S3 server in the cluster of KUBECONFIG"):
                upstream = Images({"versitygw": f"versity/versitygw:v{self.programs.versions.versitygw}"})
                target = install.Target(self.kubectl, self.programs, Authority.create(), dns_address=None)
                keys = secrets.token_hex(10), secrets.token_urlsafe(30)
                install.apply(target, own_manifests.s3(upstream, *keys))
                install.wait_for_deployments(target, own_manifests.S3_NAMESPACE)

    def down(self) -> None:
        """Removes the S3 server; the rest was there before us."""
        self.kubectl("delete", "namespace", own_manifests.S3_NAMESPACE, "--ignore-not-found")

    def is_up(self) -> bool:
        """Whether the S3 server is there."""
        try:
            self.kubectl("get", "deployment", "s3", f"--namespace={own_manifests.S3_NAMESPACE}")
        except CommandFailed:
            return False
        return True

    def is_warm(self) -> bool:
        """Whether it is up; there is no snapshot of a cluster like this."""
        return self.is_up()

    def kubeconfig(self) -> Path:
        """The file that KUBECONFIG names."""
        return Path(os.environ["KUBECONFIG"])

    def load_image(self, name: str) -> None:
        """Refused: only a registry that the cluster can reach helps here."""
        raise UsageError(
            f"{name} can't be loaded into the cluster of KUBECONFIG; push it: make images REGISTRY=…"
        )

    def exec_command(self, words: Sequence[str]) -> list[str]:
        """As it is: whether pods can be reached from here is the cluster's affair."""
        return list(words)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """kubectl with the caller's own kubeconfig."""
        return run([self.programs.path("kubectl"), *arguments], stdin=stdin)
