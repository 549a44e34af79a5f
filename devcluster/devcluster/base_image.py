"""The base of all images with a shell: Debian's minimal root filesystem by debootstrap, under the name of the
published slim image, so that a Dockerfile that says `FROM debian:bookworm-slim` builds here without a registry.
"""

import shutil
import tempfile
from pathlib import Path

from devcluster import host_packages
from devcluster.programs import locked
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import run
from devcluster.versions import Versions

_REMOVED = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/log",
)
"""Left out by the published slim image too; the folders themselves stay, since dpkg expects them."""

_FORMAT = 1
"""Raised when this file makes the root filesystem differently."""


def name(versions: Versions) -> str:
    """Image name that a Dockerfile refers to."""
    return f"debian:{versions.debian_suite}-slim"


def archive_path(settings: Settings, versions: Versions) -> Path:
    """Where the tar lies once it is made."""
    return settings.cache / "base" / f"{versions.debian_suite}-{_FORMAT}.tar"


def root_filesystem(settings: Settings, versions: Versions) -> Path:
    """An uncompressed tar with the root filesystem, made on first use and kept in the cache."""
    archive = archive_path(settings, versions)
    with locked(settings.cache / "base.lock"):
        if archive.exists():
            return archive
        host_packages.ensure("debootstrap")
        archive.parent.mkdir(parents=True, exist_ok=True)
        with (
            step(f"making the Debian {versions.debian_suite} root filesystem"),
            tempfile.TemporaryDirectory(dir=archive.parent) as scratch,
        ):
            root = Path(scratch) / "root"
            run(["debootstrap", "--variant=minbase", versions.debian_suite, root])
            for folder in _REMOVED:
                _empty(root / folder)
            partial = Path(scratch) / "root.tar"
            run(["tar", "--numeric-owner", "--one-file-system", "-C", root, "-cf", partial, "."])
            partial.rename(archive)
    return archive


def _empty(folder: Path) -> None:
    for entry in folder.iterdir() if folder.exists() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
