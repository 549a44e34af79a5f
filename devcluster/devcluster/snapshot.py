"""The installed cluster, stopped and kept, so that the next start copies files and installs nothing.

A snapshot is the whole state folder (etcd, containerd's store, keys, configuration) taken while nothing runs and no
pod exists. Its key covers every version, every image and the code that decides what is installed, so a snapshot never
has to be checked for age: another cluster has another key.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import CommandFailed
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import run
from devcluster.versions import REPOSITORY

_DECIDING = (
    "api_server", "certificates", "cgroups", "crds", "image_archive", "install", "manifests", "network", "node",
    "node_files", "own_manifests", "program_images", "sandbox", "settings", "snapshot", "state",
)  # fmt: skip
"""Modules whose change can change an installed cluster."""

_STORE = "var/lib/containerd"
_WRITTEN_ONCE = (
    f"{_STORE}/io.containerd.content.v1.content/blobs",
    f"{_STORE}/io.containerd.snapshotter.v1.overlayfs/snapshots",
)

_KEPT = 2
"""Snapshots that stay: the newest and the one of the branch that one comes from."""


def key(images: Sequence[str]) -> str:
    """Names the cluster that these archives of images (by name), these pins and this code install."""
    package = Path(__file__).parent
    digest = hashlib.sha256((REPOSITORY / "versions.toml").read_bytes())
    for module in _DECIDING:
        digest.update((package / f"{module}.py").read_bytes())
    for image in sorted(images):
        digest.update(image.encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Snapshots:
    """The folder of snapshots in the cache."""

    settings: Settings

    @property
    def folder(self) -> Path:
        """One folder a key."""
        return self.settings.cache / "snapshots"

    def has(self, name: str) -> bool:
        """Whether there is a complete snapshot of that key."""
        return (self.folder / name).is_dir()

    def save(self, name: str) -> None:
        """Keeps the state of the stopped cluster. Interrupted, it leaves nothing that looks complete."""
        with step("keeping a snapshot for the next start"):
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = self.folder / f".{name}-{os.getpid()}"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _copy(self.settings.state, partial)
            shutil.rmtree(partial / "logs", ignore_errors=True)  # they belong to one run
            os.utime(partial)  # the copy has the age of its source, and the oldest are forgotten
            if self.has(name):  # a cluster beside this one was quicker
                shutil.rmtree(partial)
            else:
                partial.rename(self.folder / name)
            self._forget_old()

    def restore(self, name: str) -> None:
        """Fills the empty state with what a snapshot holds."""
        with step("copying the snapshot of the installed cluster"):
            _copy(self.folder / name, self.settings.state)

    def _forget_old(self) -> None:
        snapshots = sorted(
            (entry for entry in self.folder.iterdir() if not entry.name.startswith(".")),
            key=lambda entry: entry.stat().st_mtime_ns,
            reverse=True,
        )
        for old in snapshots[_KEPT:]:
            shutil.rmtree(old)


def _copy(source: Path, target: Path) -> None:
    """Copies a tree into an existing folder; the image store, which is most of it, only by links.

    Blobs and unpacked layers are written once and then only read or removed, so copy and original may share them.
    """
    flags = ["--archive", "--reflink=auto", "--sparse=always"]
    try:
        run(["cp", "--archive", "--link", "--force", f"{source}/.", target])
    except CommandFailed:  # the two lie on different file systems
        run(["cp", *flags, "--remove-destination", f"{source}/.", target])
        return
    shared = [target / folder for folder in _WRITTEN_ONCE]
    for folder, names, files in os.walk(target):
        here = Path(folder)
        names[:] = [name for name in names if here / name not in shared]
        own = [here / name for name in files if not (here / name).is_symlink() and (here / name).is_file()]
        for file in own:
            separate = file.with_name(f"{file.name}.separate")
            run(["cp", *flags, file, separate])
            separate.rename(file)
