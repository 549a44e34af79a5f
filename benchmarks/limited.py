"""Runs a command inside a memory cgroup and watches its anonymous memory.

Works with cgroup v1 and v2. It makes one group per run and removes it, and it refuses to guess: without a writable
memory controller it raises `NoMemoryController`.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


class NoMemoryController(RuntimeError):
    """This machine gives us no memory cgroup to write to."""


@dataclass(frozen=True)
class LimitedRun:
    """Exit code, seconds of wall time, peak of anonymous memory in bytes (sampled every 10 ms), and what it printed."""

    code: int
    seconds: float
    peak_anonymous: int
    output: str


def run_limited(
    command: Sequence[str], limit: int | None = None, env: Mapping[str, str] | None = None
) -> LimitedRun:
    """Run a command, in a memory cgroup of `limit` bytes if given. Anonymous memory sums over its processes."""
    group = _make_group(limit) if limit else None
    try:
        return _watch(command, group, env)
    finally:
        if group:
            group.rmdir()


def _make_group(limit: int) -> Path:
    v1 = (V1 / "memory.limit_in_bytes").exists()
    root = V1 if v1 else V2
    group = root / f"serval-live-bench-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(limit))
    except OSError as error:
        raise NoMemoryController(f"no memory cgroup below {root}: {error}") from error
    return group


def _watch(command: Sequence[str], group: Path | None, env: Mapping[str, str] | None) -> LimitedRun:
    # The shell joins the group and becomes the command, so that nothing of it ever runs outside the limit.
    joining = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")] if group else []
    started = time.monotonic()
    process = subprocess.Popen(
        [*joining, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
    )
    peak = _Peak(process.pid)
    peak.start()
    output = process.communicate()[0]
    seconds = time.monotonic() - started
    peak.stop()
    return LimitedRun(process.returncode, seconds, peak.bytes, output)


class _Peak(threading.Thread):
    """Samples the anonymous memory of a process and its children."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.01):
            self.bytes = max(self.bytes, sum(_anonymous(pid) for pid in _family(self.pid)))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(member for child in children for member in _family(int(child)))]


def _anonymous(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0
