"""What a cluster could leave on a machine: taken before and after, and compared."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devcluster.settings import Settings


@dataclass(frozen=True)
class Footprint:
    """Everything outside the cache that `devcluster up` could have made; equal footprints mean nothing is left."""

    processes: frozenset[str]
    mounts: tuple[str, ...]
    network_namespaces: frozenset[str]
    links: frozenset[str]
    cgroups: frozenset[str]
    iptables: tuple[str, ...]
    folders: frozenset[str]


def footprint(settings: Settings) -> Footprint:
    """The machine as it is now. Needs root, as the cluster does."""
    return Footprint(
        processes=frozenset(_cluster_processes(settings)),
        mounts=tuple(_mounts()),
        network_namespaces=frozenset(_network_namespaces()),
        links=frozenset(entry.name for entry in Path("/sys/class/net").iterdir()),
        cgroups=frozenset(_cgroups()),
        iptables=tuple(_iptables()),
        folders=frozenset(_folders()),
    )


def _cluster_processes(settings: Settings) -> list[str]:
    """Programs of the cluster, by their command lines: other processes of the machine come and go."""
    marks = (str(settings.cache), "containerd", "/pause", "runc")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        # A build that somebody runs beside this test works in the cache too.
        if any(mark in line.split(" ")[0] for mark in marks) or "unshare --net" in line:
            found.append(line)
    return found


def _network_namespaces() -> set[str]:
    """Network namespaces that any process or mount holds, the host's own among them."""
    held: set[str] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                held.add(str((entry / "ns/net").readlink()))
            except OSError:
                continue
    held.update(line.split()[1] for line in _lines(Path("/proc/mounts")) if line.split()[2] == "nsfs")
    return held


def _cgroups() -> set[str]:
    found: set[str] = set()
    for hierarchy in Path("/sys/fs/cgroup").iterdir():
        if hierarchy.is_dir():
            found.update(str(group) for group in (hierarchy, *hierarchy.rglob("*")) if _is_ours(group))
    return found


def _is_ours(group: Path) -> bool:
    return group.is_dir() and any(mark in str(group) for mark in ("kubepods", "serval-live", "k8s.io"))


def _iptables() -> list[str]:
    rules: list[str] = []
    for program in ("iptables-save", "ip6tables-save"):
        if shutil.which(program):
            done = subprocess.run([program], capture_output=True, text=True, check=False)
            # Comments hold times and counters hold traffic; neither is a rule.
            rules += [line.split("[")[0] for line in done.stdout.splitlines() if not line.startswith("#")]
    return rules


def _folders() -> set[str]:
    """Folders of the node that would be the host's if the sandbox leaked."""
    places = ["/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/netns"]
    return {place for place in places if Path(place).exists()}


def _mounts() -> list[str]:
    """Mount points, without those of image builds that somebody may run at the same time."""
    points = [line.split()[1] for line in _lines(Path("/proc/mounts"))]
    return sorted(point for point in points if "/overlay" not in point and "buildah" not in point)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
