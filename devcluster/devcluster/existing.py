"""A cluster of somebody else, named by KUBECONFIG. It is checked and given an S3 server; nothing else is installed.

What it refuses to do: write into a namespace that it did not make, and remove anything that it did not bring. Its own
namespace carries a label, and only that label lets `down` delete it.
"""

import copy
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import install, own_manifests
from devcluster.certificates import Authority
from devcluster.errors import CommandFailed, HostUnfit, NotRunning, UsageError
from devcluster.manifests import Images, Manifest
from devcluster.programs import Programs
from devcluster.progress import say, step
from devcluster.shell import run

_NEEDED = {
    "Knative Serving": "services.serving.knative.dev",
    "KServe": "inferenceservices.serving.kserve.io",
}
_NAMESPACE = own_manifests.S3_NAMESPACE
_MARK = "serval-live.dev/added-by", "devcluster"
_ANSWER = "--request-timeout=20s"
"""A cluster that is far away or gone is told of, not waited for."""


@dataclass(frozen=True)
class Existing:
    """The cluster of the KUBECONFIG variable."""

    programs: Programs
    name: str = "existing"

    def up(self) -> None:
        """Checks that Knative and KServe are there and adds the S3 server.

        Raises NotRunning where nothing answers, HostUnfit for what is missing or in the way.
        """
        context = self._reach()
        self._require_kinds(context)
        if self.is_up():
            say(f"the cluster of KUBECONFIG (context {context}) has an S3 server already; nothing to do")
            return
        if self._namespace_is_there() and not self._namespace_is_ours():
            raise HostUnfit(
                f"the cluster of KUBECONFIG (context {context}) has a namespace {_NAMESPACE!r} of somebody else, "
                "and the S3 server would go there; it is left alone"
            )
        with step(f"S3 server in the cluster of KUBECONFIG (context {context})"):
            upstream = Images({"versitygw": f"versity/versitygw:v{self.programs.versions.versitygw}"})
            target = install.Target(self.kubectl, self.programs, Authority.create(), dns_address=None)
            keys = secrets.token_hex(10), secrets.token_urlsafe(30)
            install.apply(target, guests(own_manifests.s3(upstream, *keys)))
            install.wait_for_deployments(target, _NAMESPACE)

    def down(self) -> None:
        """Removes the S3 server that `up` added; the rest was there before us. Raises NotRunning."""
        context = self._reach()
        if not self._namespace_is_ours():
            say(f"nothing of ours is in the cluster of KUBECONFIG (context {context}); nothing was removed")
            return
        with step(f"removing the S3 server from the cluster of KUBECONFIG (context {context})"):
            self.kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found")

    def is_up(self) -> bool:
        """Whether the S3 server is there and available."""
        wanted = ["get", "deployment", "s3", f"--namespace={_NAMESPACE}", "--ignore-not-found", _ANSWER]
        try:
            return bool(self.kubectl(*wanted, "--output=jsonpath={.status.availableReplicas}").strip())
        except CommandFailed:
            return False

    def is_warm(self) -> bool:
        """Whether it is up; there is no snapshot of a cluster like this."""
        return self.is_up()

    def kubeconfig(self) -> Path:
        """The file, or the list of files, that KUBECONFIG names."""
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

    def _reach(self) -> str:
        """Name of the context that kubectl uses. Raises UsageError and NotRunning where there is no cluster."""
        named = os.environ.get("KUBECONFIG", "")
        if not any(Path(file).is_file() for file in named.split(os.pathsep) if file):
            raise UsageError(
                f"KUBECONFIG names {named!r}, and there is no such file; unset it for a cluster of ours"
            )
        try:
            self.kubectl("get", "--raw", "/version", _ANSWER)
            return self.kubectl("config", "current-context").strip()
        except CommandFailed as failed:
            last = failed.output.strip().splitlines()[-1:]
            raise NotRunning(
                f"the cluster of KUBECONFIG ({named}) does not answer: {''.join(last)}"
            ) from failed

    def _require_kinds(self, context: str) -> None:
        found = self.kubectl("get", "crd", *_NEEDED.values(), "--ignore-not-found", "--output=name", _ANSWER)
        lacking = [f"{part} ({kind})" for part, kind in _NEEDED.items() if f"/{kind}" not in found]
        if lacking:
            raise HostUnfit(
                f"the cluster of KUBECONFIG (context {context}) lacks {' and '.join(lacking)}; "
                "install that first, or unset KUBECONFIG for a cluster of ours"
            )

    def _namespace_is_there(self) -> bool:
        return bool(
            self.kubectl("get", "namespace", _NAMESPACE, "--ignore-not-found", "--output=name", _ANSWER)
        )

    def _namespace_is_ours(self) -> bool:
        selector = f"--selector={'='.join(_MARK)}"
        return f"/{_NAMESPACE}\n" in self.kubectl("get", "namespaces", selector, "--output=name", _ANSWER)


def guests(objects: Sequence[Manifest]) -> list[Manifest]:
    """The S3 server's objects as they go into a cluster of somebody else: marked, and with no file on a node of it."""
    changed = copy.deepcopy(list(objects))
    for each in changed:
        each["metadata"].setdefault("labels", {})[_MARK[0]] = _MARK[1]
        if each["kind"] == "Deployment":
            for volume in each["spec"]["template"]["spec"]["volumes"]:
                if volume.pop("hostPath", None) is not None:
                    volume["emptyDir"] = {}
    return changed
