"""The cgroup below which the kubelet puts all pods, in every hierarchy (v1) or in the only one (v2)."""

import errno
from functools import partial
from pathlib import Path

from devcluster.settings import Settings
from devcluster.waiting import until

_MOUNT = Path("/sys/fs/cgroup")
_EMPTY_S = 20.0
_CONTROLLERS_V2 = "+cpu +cpuset +memory +pids +io"


def _is_v2() -> bool:
    return (_MOUNT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    """Mount points of all hierarchies; links such as cpu -> cpu,cpuacct count once."""
    if _is_v2():
        return [_MOUNT]
    found = [entry for entry in sorted(_MOUNT.iterdir()) if (entry / "cgroup.procs").exists()]
    return sorted({entry.resolve() for entry in found})


def create(settings: Settings) -> None:
    """Makes the cgroup; a kubelet refuses a root that is missing in any hierarchy."""
    for hierarchy in _hierarchies():
        group = hierarchy / settings.cgroup
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (group / name).exists() and not _is_v2():  # v1 starts a group with no CPU at all
                (group / name).write_text((hierarchy / name).read_text(encoding="ascii"), encoding="ascii")
        if _is_v2():
            for controller in _CONTROLLERS_V2.split():
                _enable(hierarchy, controller)
                _enable(group, controller)


def remove(settings: Settings) -> None:
    """Removes the cgroup and all below it; nothing may run in them any more."""
    for hierarchy in _hierarchies():
        group = hierarchy / settings.cgroup
        # A process that was killed stays a moment in its group.
        until(f"the end of {group}", partial(_remove_tree, group), timeout_s=_EMPTY_S)


def existing(settings: Settings) -> list[Path]:
    """Folders of the cgroup that exist, one a hierarchy."""
    return [group for hierarchy in _hierarchies() if (group := hierarchy / settings.cgroup).exists()]


def _enable(group: Path, controller: str) -> None:
    control = group / "cgroup.subtree_control"
    if controller[1:] in (group / "cgroup.controllers").read_text(encoding="ascii").split():
        control.write_text(controller, encoding="ascii")


def _remove_tree(group: Path) -> bool:
    """Whether the group and all below it are gone; False while a process is still in one of them."""
    if not group.exists():
        return True
    for child in group.iterdir():
        if child.is_dir() and not _remove_tree(child):
            return False
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
