"""A stand-in for a model hub on loopback: the few routes that a client needs to fetch a model, and faults on demand.

Files lie in one folder per model. It lists sizes and digests as the real hub does: SHA-256 for large files, git's blob
id for all; answers HEAD and ranged GET of `resolve`, and can break, damage, hide or gate what it serves.
"""

import contextlib
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 4096
"""Bytes from which a file counts as stored apart, with a SHA-256."""


@dataclass
class Hub:
    """The server. `models` maps `owner/name` to a folder."""

    models: dict[str, Path]
    gated: set[str] = field(default_factory=set)
    budget: int | None = None
    """Bytes of files that it still sends before every further answer breaks off."""
    damage: str | None = None
    """Name of a file whose first byte is changed on the way."""
    status: int | None = None
    """Answer everything with this status."""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(method, path, Range) of everything that was asked."""

    def __post_init__(self) -> None:
        hub = self

        class Handler(_Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Hub":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def ranges(self, name: str) -> list[str | None]:
        """The Range headers of all GET requests for a file."""
        return [
            asked for method, path, asked in self.requests if method == "GET" and path.endswith(f"/{name}")
        ]


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: what was asked is in `requests`."""

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.state.requests.append((self.command, path, self.headers.get("Range")))
        if self.state.status is not None:
            self._send(self.state.status, b"{}")
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._info(found[1], found[2] or "main")
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[3], body=body)
        else:
            self._missing("EntryNotFound")

    def _info(self, name: str, revision: str) -> None:
        folder = self.state.models.get(name)
        if folder is None:
            self._missing("RepoNotFound")
        elif name in self.state.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        elif revision not in ("main", COMMIT):
            self._missing("RevisionNotFound")
        else:
            siblings = [_sibling(path) for path in sorted(folder.iterdir())]
            self._send(200, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())

    def _file(self, name: str, file: str, *, body: bool) -> None:
        path = self.state.models.get(name, Path("/nonexistent")) / file
        if not path.is_file():
            self._missing("EntryNotFound")
            return
        content = path.read_bytes()
        if self.state.damage == file:
            content = bytes([content[0] ^ 1]) + content[1:]
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        status, total = 200, len(content)
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start = int(asked[1])
            end = int(asked[2]) + 1 if asked[2] else total
            content, status = content[start:end], 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{total}"
        self._send(status, content if body else b"", headers, len(content))

    def _missing(self, code: str) -> None:
        self._send(404, b"{}", {"X-Error-Code": code})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        with contextlib.suppress(OSError):
            if self.command != "HEAD":
                self.wfile.write(self._affordable(body))

    def _affordable(self, body: bytes) -> bytes:
        """What of a file's body the budget allows; the connection closes on a reader who expects more."""
        if self.state.budget is None or "/resolve/" not in self.path:
            return body
        sent = body[: self.state.budget]
        self.state.budget -= len(sent)
        self.close_connection = len(sent) < len(body)
        return sent


def _sibling(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    found: dict[str, object] = {
        "rfilename": path.name,
        "size": len(content),
        "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest(),
    }
    if len(content) >= LARGE:
        digest = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
    return found
