"""Runs a command in an image as a cluster would: foreign user id, read-only root, nothing writable but /tmp.

Namespaces and a chroot on buildah's mount are enough to see whether an image works; a container engine would only add
what can fail by itself. Each command gets its own mounts, process ids and network (loopback only), which all end with
it.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ANY_USER = 1000980000
"""The kind of user id that OpenShift gives a namespace: known to no image."""

_SET_UP = """
set -eu
root=$1; model=$2; user=$3; shift 3
ip link set lo up
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/mnt"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
touch "$root/dev/termination-log"
chmod 666 "$root/dev/termination-log"
if [ -n "$model" ]; then mkdir "$root/mnt/models"; mount --bind -o ro "$model" "$root/mnt/models"; fi
exec chroot --userspec="$user:0" --groups= "$root" env -i "$@"
"""


@dataclass
class Box:
    """An image of buildah's storage, mounted while the `with` block lasts."""

    image: str
    root: Path = Path()
    environment: tuple[str, ...] = ()
    """As the image sets it, `NAME=value`."""
    _container: str = ""

    def __enter__(self) -> "Box":
        described = json.loads(_buildah("inspect", "--type", "image", self.image))
        self.environment = tuple(described["OCIv1"]["config"]["Env"])
        self._container = _buildah("from", "--pull-never", self.image)
        self.root = Path(_buildah("mount", self._container))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _buildah("umount", self._container)
        _buildah("rm", self._container)

    def run(
        self, *command: str, model: Path | None = None, user: int = ANY_USER, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command inside; `model` is mounted read-only at /mnt/models. stderr is part of stdout."""
        namespaces = [
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ]
        inner = ["sh", "-c", _SET_UP, "box", str(self.root), str(model or ""), str(user)]
        return subprocess.run(
            [*namespaces, *inner, *self.environment, *command],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    def shell(
        self, script: str, model: Path | None = None, user: int = ANY_USER
    ) -> subprocess.CompletedProcess[str]:
        """Runs a bash script inside."""
        return self.run("bash", "-c", script, model=model, user=user)


def _buildah(*arguments: str) -> str:
    done = subprocess.run(["buildah", *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"buildah {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
