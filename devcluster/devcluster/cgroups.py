"""The cgroup below which the kubelet puts all pods, in every hierarchy (v1) or in the only one (v2)."""

from pathlib import Path

from devcluster.settings import Settings

_MOUNT = Path("/sys/fs/cgroup")
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
        if group.exists():
            _remove_tree(group)


def existing(settings: Settings) -> list[Path]:
    """Folders of the cgroup that exist, one a hierarchy."""
    return [group for hierarchy in _hierarchies() if (group := hierarchy / settings.cgroup).exists()]


def _enable(group: Path, controller: str) -> None:
    control = group / "cgroup.subtree_control"
    if controller[1:] in (group / "cgroup.controllers").read_text(encoding="ascii").split():
        control.write_text(controller, encoding="ascii")


def _remove_tree(group: Path) -> None:
    for child in group.iterdir():
        if child.is_dir():
            _remove_tree(child)
    group.rmdir()
