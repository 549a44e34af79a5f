"""What a cluster could leave on a machine: taken before and after, and compared.

Other clusters that run beside the tested one are left out, since their pods come and go.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.sandbox import Sandbox
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
    """The machine as it is now, without clusters of other state folders. Needs root, as the cluster does."""
    processes = list(_processes(settings))
    return Footprint(
        processes=frozenset(line for line, _ in processes),
        mounts=tuple(_mounts()),
        network_namespaces=frozenset(network for _, network in processes),
        links=frozenset(entry.name for entry in Path("/sys/class/net").iterdir()),
        cgroups=frozenset(_cgroups(settings)),
        iptables=tuple(_iptables()),
        folders=frozenset(_folders()),
    )


def _processes(settings: Settings) -> Iterator[tuple[str, str]]:
    """Command lines and network namespaces of all processes that are not in the host's network."""
    host = _network("self")
    others = [sandbox for state, sandbox in Sandbox.every().items() if state != settings.state]
    hidden = {pid for other in others for pid in (other.pid, *other.processes())}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        network = _network(entry.name)
        if network is None or network == host or any(pid in hidden for pid in _line(int(entry.name))):
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        yield line, network


def _line(pid: int) -> Iterator[int]:
    """A process and its ancestors."""
    while pid > 1:
        yield pid
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        pid = int(status.rpartition(")")[2].split()[1])


def _network(pid: str) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None


def _mounts() -> list[str]:
    """Mount points, without those of image builds that somebody may run at the same time."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    return sorted(point for point in points if "/overlay" not in point and "buildah" not in point)


def _cgroups(settings: Settings) -> list[str]:
    tops = [entry for entry in Path("/sys/fs/cgroup").iterdir() if entry.is_dir()]
    groups = [group for top in tops for group in (top, *top.glob("*"))]
    return [str(group) for group in groups if group.name in (settings.cgroup, "kubepods", "k8s.io")]


def _iptables() -> list[str]:
    rules: list[str] = []
    for program in ("iptables-save", "ip6tables-save"):
        if shutil.which(program):
            done = subprocess.run([program], capture_output=True, text=True, check=False)
            # Comments hold times and counters hold traffic; neither is a rule.
            rules += [line.split("[")[0] for line in done.stdout.splitlines() if not line.startswith("#")]
    return rules


def _folders() -> list[str]:
    """Folders of the node that would be the host's if the sandbox leaked."""
    places = ["/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/netns"]
    return [place for place in places if Path(place).exists()]
