"""Long-running programs: each has a log file and can be stopped. Refuses to end anything that it didn't start."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import NotReady

_GRACE_S = 10.0
"""How long a program may take to end after SIGTERM before it is killed."""


@dataclass
class Daemon:
    """A program running beside us, with its output in `log`."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> "Daemon":
        """Starts a program in a session of its own, so that a terminal's Ctrl-C reaches only us."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=None if env is None else dict(env),
                cwd=cwd,
            )
        return cls(name, log, process)

    def require_running(self) -> None:
        """Raises NotReady with the end of the log where the program has ended already."""
        if self.process.poll() is not None:
            raise NotReady(f"{self.name} ended with {self.process.returncode}:\n{tail(self.log)}")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after a grace; returns when the process is gone. Idempotent."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a crash would end it."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()


def detach(command: Sequence[str | Path], *, log: Path) -> None:
    """Starts a program that is nobody's child here: it outlives us and leaves no zombie. Its output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        subprocess.run(
            ["setsid", "--fork", *(str(word) for word in command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log file; empty where there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
