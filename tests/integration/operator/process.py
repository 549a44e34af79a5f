"""The operator as a process of its own, and what the API server's audit log says of its writes."""

import asyncio
import json
import signal
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from engine_operator.cluster.resources import Json


@dataclass
class OperatorProcess:
    """One running operator."""

    process: asyncio.subprocess.Process
    log: Path
    ended: bool = False
    """A test ended it."""

    async def kill(self) -> None:
        """As a lost node would: no goodbye."""
        self.ended = True
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        """As a rolling update would: SIGTERM."""
        self.ended = True
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self.process.wait()


class AuditLog:
    """Writes of operators in one namespace, read from the API server's log as it grows."""

    def __init__(self, file: Path, namespace: str) -> None:
        self._file = file
        self._namespace = namespace
        self._read_to = file.stat().st_size
        self.writes: list[Json] = []
        self.leases: list[Json] = []
        """Writes of the Lease, by whoever held it or tried to."""

    def read(self) -> None:
        """Take in what came since the last look."""
        with self._file.open("rb") as log:
            log.seek(self._read_to)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # It is being written.
                self._read_to += len(line)
                if self._namespace.encode() in line and b"serval-live-operator" in line:
                    self._take(json.loads(line))

    def _take(self, entry: Json) -> None:
        reference = entry.get("objectRef", {})
        if reference.get("namespace") != self._namespace or entry["verb"] in ("get", "list", "watch"):
            return
        (self.leases if reference.get("resource") == "leases" else self.writes).append(entry)


def received(entry: Json) -> float:
    """When the API server got a request, in seconds since 1970."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()


def writes_of(writes: list[Json], resource: str) -> list[str]:
    """Writes of one kind as `verb name[/subresource] code`."""
    return [
        f"{one['verb']} {one['objectRef'].get('name', '')}"
        + (f"/{one['objectRef']['subresource']}" if one["objectRef"].get("subresource") else "")
        + f" {one['responseStatus']['code']}"
        for one in writes
        if one["objectRef"]["resource"] == resource
    ]
