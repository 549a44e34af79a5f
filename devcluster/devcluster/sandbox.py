"""The namespaces that a cluster lives in: network, mounts and processes of its own.

One process holds them open (`pause`, process 1 inside). When it is killed the kernel ends every process inside and
drops all mounts and network devices with them, so nothing can be left behind but files and cgroups.

Inside, /run is empty and /var is the cluster's own folder. The programs of the node therefore use their usual paths,
and the host's containers, logs and leases stay out of sight.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from devcluster.errors import NotReady
from devcluster.processes import detach, tail
from devcluster.shell import run
from devcluster.waiting import until

INIT = "pause"
"""Name of process 1."""

_START_S = 10.0
_STOP_S = 20.0


@dataclass(frozen=True)
class Sandbox:
    """Process 1 of the namespaces, by its number outside."""

    pid: int

    @classmethod
    def create(cls, state: Path, init: Path) -> Self:
        """Makes the namespaces and mounts. `init` is a program that only waits and reaps.

        It gets the state folder as an argument that it ignores, so that it can be told from those of other clusters.
        """
        flags = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--propagation=private"]
        log = state / "logs" / "sandbox.log"
        detach(["unshare", *flags, "--", init, state], log=log)
        try:
            sandbox = until("the namespaces", lambda: cls.find(state), timeout_s=_START_S, pause_s=0.02)
        except NotReady as error:
            raise NotReady(f"{error}\n{tail(log)}") from error
        sandbox._mount(state)
        return sandbox

    @classmethod
    def every(cls) -> dict[Path, Self]:
        """All running sandboxes of this machine by state folder. No record of them is kept that could be wrong."""
        found = {pid: _arguments(pid) for pid in _all_pids() if _program(pid) == INIT}
        return {Path(words[1]): cls(pid) for pid, words in found.items() if len(words) == 2}

    @classmethod
    def find(cls, state: Path) -> Self | None:
        """The running sandbox of a state folder, or None."""
        return cls.every().get(state)

    def command(self, words: Sequence[str | Path]) -> list[str | Path]:
        """The same command line, run inside all three namespaces."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", "--", *words]

    def run(self, words: Sequence[str | Path], stdin: str | None = None) -> str:
        """Runs a program inside to its end."""
        return run(self.command(words), stdin=stdin)

    def start(self, words: Sequence[str | Path], log: Path) -> "Inmate":
        """Starts a program inside that outlives this process."""
        detach(self.command(words), log=log)
        return Inmate(self, Path(words[0]).name, log, time.monotonic())

    def network_command(self, words: Sequence[str], resolver: Path) -> list[str]:
        """The same command line with the cluster's network and DNS, but the host's files and process numbers.

        The program replaces `nsenter`, so a signal to the process that was started reaches it.
        """
        script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        target = str(Path("/etc/resolv.conf").resolve())
        enter = [
            "nsenter",
            f"--net=/proc/{self.pid}/ns/net",
            "--",
            "unshare",
            "--mount",
            "--propagation=private",
        ]
        return [*enter, "--", "sh", "-c", script, "exec", str(resolver), target, *words]

    def processes(self) -> list[int]:
        """Numbers (outside) of all processes that are in the cluster's network, those of `exec` included."""
        try:
            network = (Path(f"/proc/{self.pid}/ns/net")).readlink()
        except FileNotFoundError:
            return []
        return [pid for pid in _all_pids() if _network_of(pid) == network]

    def named(self, program: str) -> list[int]:
        """Numbers (outside) of the processes inside whose program has that name, e.g. "kubelet"."""
        return [pid for pid in self.processes() if _program(pid) == program[:15]]

    def destroy(self) -> None:
        """Ends everything inside, process 1 last, and waits until it is gone."""
        others = [pid for pid in self.processes() if pid != self.pid]
        # Programs of `exec` live outside the process namespace, so the kernel does not end them with process 1.
        for pid in others:
            _signal(pid, signal.SIGKILL)
        _signal(self.pid, signal.SIGKILL)
        watched = {pid: _start_time(pid) for pid in others}

        def gone() -> bool:
            # A zombie is gone, but not process 1: its first thread is one while another still ends the namespace.
            alive = any(started and _start_time(pid) == started for pid, started in watched.items())
            return not alive and not Path(f"/proc/{self.pid}").exists()

        until("the end of the cluster's processes", gone, timeout_s=_STOP_S, pause_s=0.05)

    def stop(self, program: str, timeout_s: float = 10.0) -> None:
        """Ends the programs of that name inside, politely first."""
        pids = self.named(program)
        for pid in pids:
            _signal(pid, signal.SIGTERM)
        try:
            until(f"the end of {program}", lambda: not self.named(program), timeout_s=timeout_s)
        except NotReady:
            for pid in self.named(program):
                _signal(pid, signal.SIGKILL)
            until(f"the end of {program}", lambda: not self.named(program), timeout_s=timeout_s)

    def _mount(self, state: Path) -> None:
        """Own /var and /run; resolv.conf that names only the cluster's DNS; propagation that a kubelet expects."""
        for foreign in reversed(_foreign_mounts()):
            # A container of the host would stay mounted in here for as long as we run.
            self.run(["umount", "--lazy", foreign])
        resolver = Path("/etc/resolv.conf").resolve()
        for folder in ("lib/containerd", "lib/kubelet", "lib/cni", "lib/s3", "log", "tmp"):
            (state / "var" / folder).mkdir(parents=True, exist_ok=True)
        link = state / "var" / "run"
        if not link.is_symlink():
            link.symlink_to("/run")
        self.run(["mount", "--bind", state / "var", "/var"])
        self.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])
        self.run(["mkdir", "-p", "/run/netns", "/run/containerd", "/run/lock", resolver.parent])
        self.run(["touch", resolver])
        self.run(["mount", "--bind", state / "etc" / "resolv.conf", resolver])
        self.run(["mount", "--make-rshared", "/"])


@dataclass(frozen=True)
class Inmate:
    """A program that was started inside."""

    sandbox: Sandbox
    name: str
    log: Path
    since: float

    def require_running(self) -> None:
        """Raises NotReady with the end of its log where the program has ended already."""
        # It takes a moment until the new process is inside and has become the program.
        if time.monotonic() - self.since > _START_S and not self.sandbox.named(self.name):
            raise NotReady(f"{self.name} has ended:\n{tail(self.log)}")


def _foreign_mounts() -> list[str]:
    """Root file systems of the host's containers and its network namespaces, in the order of mounting."""
    rows = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    return [row[1] for row in rows if row[2] in ("overlay", "nsfs") and row[1] != "/"]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _network_of(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:  # it has ended meanwhile, or is a zombie
        return None


def _arguments(pid: int) -> list[str]:
    """Command line of a process; empty where it has ended or has none."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.split("\0")[:-1]


def _program(pid: int) -> str | None:
    """Name that the kernel knows: at most 15 characters."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _start_time(pid: int) -> int | None:
    """Start time in ticks since boot; None where there is no such process or only its zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
