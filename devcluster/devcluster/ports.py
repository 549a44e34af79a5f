"""Ports of loopback that this process alone hands out, for servers that cannot be told to take any free one.

A port that was free a moment ago may belong to somebody else by the time its server binds it: to another process
that asked the same question, or to an outgoing connection. So ports come from below the range that the kernel gives to
connections, and each is held by a lock file for as long as this process lives; every process of the project asks here.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from devcluster.errors import NotReady

LOOPBACK = "127.0.0.1"
RANGE = range(20_000, 30_000)
"""Below Linux' 32768 to 60999 for outgoing connections, above the ports of well-known services."""

_held: dict[int, int] = {}
"""Descriptor of the lock file by port."""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on and that no other process of the project was given. Raises NotReady if there are
    not as many."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(found) == count:
            return found
        if port not in _held and _reserve(port):
            found.append(port)
    raise NotReady(f"There are no {count} free ports from {RANGE.start} to {RANGE.stop - 1} on {LOOPBACK}.")


def _reserve(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / "serval-live-ports"
    folder.mkdir(exist_ok=True)
    # A plain descriptor: it is meant to stay open until the process ends.
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind((LOOPBACK, port))
    except OSError:
        os.close(lock)
        return False
    _held[port] = lock
    return True
