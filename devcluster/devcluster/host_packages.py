"""Programs that come from Debian packages: installed when they are missing, left alone when they are there.

Debian starts a service when its package is installed. A policy-rc.d that refuses is put in place for the length of
the installation, so nothing is started that would have to be stopped.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.errors import HostUnfit
from devcluster.programs import locked
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import run

_PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "curl": "curl",
    # Brings the headers of the C library too, which gcc alone only recommends.
    "cc": "g++",
}
"""Program -> Debian package."""

_PLUGINS = Path("/usr/lib/cni/bridge")
"""The CNI plugins are no programs on PATH."""

_POLICY = Path("/usr/sbin/policy-rc.d")

NODE_PROGRAMS = ("etcd", "containerd", "ctr", "runc", "conntrack", "iptables", "ip", "nsenter", "cni")
IMAGE_PROGRAMS = ("buildah", "debootstrap")


def missing(programs: tuple[str, ...]) -> list[str]:
    """Debian packages of those programs that this machine lacks."""
    packages = set()
    for program in programs:
        if program == "cni":
            if not _PLUGINS.exists():
                packages.add("containernetworking-plugins")
        elif shutil.which(program, path=_search_path()) is None:
            packages.add(_PACKAGES[program])
    return sorted(packages)


def ensure(*programs: str) -> None:
    """Installs what is missing. Raises HostUnfit where that is impossible (no apt, not root)."""
    if not missing(programs):
        return
    # apt refuses to run twice at once, and tests that run side by side lack the same packages.
    with locked(Settings().cache / "packages.lock"):
        packages = missing(programs)
        if not packages:
            return
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise HostUnfit(f"please install {', '.join(packages)}: this needs apt-get and root")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        with step(f"installing Debian packages: {', '.join(packages)}"), _no_service_starts():
            run(["apt-get", "update", "-q"], env=environment)
            run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages], env=environment)


def path(program: str) -> Path:
    """Where an installed program is. Raises HostUnfit where it is missing."""
    found = shutil.which(program, path=_search_path())
    if found is None:
        raise HostUnfit(f"there is no program {program!r} on this machine")
    return Path(found)


def _search_path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


@contextmanager
def _no_service_starts() -> Iterator[None]:
    if _POLICY.exists():  # somebody's own policy: theirs to decide
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()
