"""Runs programs and turns their failures into one error type. Refuses shells: arguments are lists."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import CommandFailed, HostUnfit


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Runs a program to its end and returns its standard output.

    Raises CommandFailed with both outputs where it ends with an error, HostUnfit where there is no such program.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as missing:
        raise HostUnfit(f"there is no program {words[0]!r} on this machine") from missing
    if done.returncode != 0:
        raise CommandFailed(words, done.returncode, done.stdout + done.stderr)
    return done.stdout


def python() -> str:
    """The interpreter that runs us, for `python -m pip`."""
    return sys.executable
