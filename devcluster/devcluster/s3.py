"""An S3 server with real signatures on loopback: versitygw over a folder.

For fast tests; in the cluster the same program runs as a Deployment (see `manifests`). Path-style addresses, region
`us-east-1`. Buckets are folders; the caller makes them through the S3 API like anybody else.
"""

import http.client
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from devcluster.ports import LOOPBACK, free_ports
from devcluster.processes import Daemon
from devcluster.programs import Programs
from devcluster.waiting import until

REGION = "us-east-1"
HEALTH_PATH = "/health"
_READY_S = 20.0


@dataclass
class S3Server:
    """A running server. Use as a context manager, or call `stop`."""

    endpoint: str
    """URL without a bucket."""
    access_key: str
    secret_key: str
    folder: Path
    """Where buckets and objects lie; a test may look, or break things, behind the server's back."""
    daemon: Daemon
    region: str = REGION

    @classmethod
    def start(cls, workdir: Path) -> Self:
        """Starts on a free port of loopback with fresh keys."""
        folder = workdir.absolute() / "buckets"
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        access, secret = secrets.token_hex(10), secrets.token_urlsafe(30)
        daemon = _launch(port, folder, workdir / "versitygw.log", (access, secret))
        return cls(f"http://{LOOPBACK}:{port}", access, secret, folder, daemon)

    def restart(self) -> None:
        """Comes back, after `stop` or in place of it, on the same port with the same keys and objects."""
        self.stop()
        port = int(self.endpoint.rpartition(":")[2])
        self.daemon = _launch(port, self.folder, self.daemon.log, (self.access_key, self.secret_key))

    def environment(self) -> dict[str, str]:
        """The usual variables of AWS clients for this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": self.region,
        }

    def stop(self) -> None:
        """Ends the server; the folder stays."""
        self.daemon.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _launch(port: int, folder: Path, log: Path, keys: tuple[str, str]) -> Daemon:
    command: list[str | Path] = [
        Programs.default().path("versitygw"),
        f"--port={LOOPBACK}:{port}",
        f"--region={REGION}",
        f"--health={HEALTH_PATH}",
        "posix",
        folder,
    ]
    # Keys go by environment: arguments can be read by everybody on the machine.
    environment = {**os.environ, "ROOT_ACCESS_KEY": keys[0], "ROOT_SECRET_KEY": keys[1]}
    daemon = Daemon.start("versitygw", command, log=log, env=environment)

    def look() -> bool:
        daemon.require_running()
        return _answers(port)

    try:
        until("versitygw", look, timeout_s=_READY_S, pause_s=0.02)
    except BaseException:
        daemon.stop()
        raise
    return daemon


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", HEALTH_PATH)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
