"""Reading a remote archive as one stream that survives broken connections.

A 2.5 GB download over a presigned URL breaks now and then; starting over would cost minutes each time. The stream
goes on at the byte where it broke, of the same version of the object, a bounded number of times.
"""

import hashlib
import io
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import urllib3

from nllb_predictor.errors import SourceMissing, SourceRefused, SourceUnreachable, StoreUntrusted
from nllb_predictor.progress import Step
from nllb_predictor.store.settings import StoreSettings

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Remote:
    """A remote object that can be read from any offset."""

    uri: str
    """For messages and the manifest: without query."""
    etag: str | None
    size: int
    read_from: Callable[[int], Iterator[bytes]]
    """Blocks from an offset to the end; raises SourceUnreachable where the connection breaks."""


class HashingReader(io.RawIOBase):
    """Reads blocks from an iterator, counting, hashing and reporting every byte that passes."""

    def __init__(self, blocks: Iterator[bytes], step: Step) -> None:
        super().__init__()
        self._blocks, self._step = blocks, step
        self._rest = memoryview(b"")
        self._digest = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._digest.update(block)
            self._step.advance(len(block))
            self.count += len(block)
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def finish(self) -> str:
        """Read what is left and return the SHA-256 of everything."""
        while self.read(_BLOCK):
            pass
        return self._digest.hexdigest()


def resumed(remote: Remote, attempts: int) -> Iterator[bytes]:
    """All blocks of the object, going on after a break. Raises SourceUnreachable after `attempts` breaks in a row."""
    at, failures = 0, 0
    while at < remote.size:
        before = at
        try:
            for block in remote.read_from(at):
                at += len(block)
                yield block
            if at < remote.size:
                raise SourceUnreachable(f"{remote.uri} ended {remote.size - at} bytes too early.")
        except SourceUnreachable:
            failures = 0 if at > before else failures + 1
            if failures >= attempts:
                raise
            time.sleep(min(0.2 * 2**failures, 5.0))


def open_url(url: str, settings: StoreSettings) -> Remote:
    """A presigned or public URL. Raises SourceMissing, SourceRefused, SourceUnreachable and StoreUntrusted."""
    reader = _UrlReader(url, settings)
    # A presigned GET does not allow HEAD, so size and ETag come with the first byte.
    response = reader.request(0, None)
    try:
        etag = response.headers.get("ETag")
        size = int(response.headers.get("Content-Length", -1))
    finally:
        response.close()
    if size < 0:
        raise SourceUnreachable(f"{reader.shown} does not say how long it is.")
    return Remote(reader.shown, etag, size, lambda at: reader.blocks(at, etag))


def without_query(url: str) -> str:
    """The URL without query, fragment and credentials: a signature is a secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


class _UrlReader:
    def __init__(self, url: str, settings: StoreSettings) -> None:
        self.shown = without_query(url)
        self._url, self._settings = url, settings
        timeout = urllib3.Timeout(connect=settings.connect_seconds, read=settings.read_seconds)
        self._pool = urllib3.PoolManager(timeout=timeout, ca_certs=settings.ca_file, retries=False)

    def request(self, at: int, etag: str | None) -> Any:
        headers = {"Accept-Encoding": "identity"}
        if at:
            headers["Range"] = f"bytes={at}-"
            if etag is not None:
                headers["If-Range"] = etag
        with _url_errors(self.shown, self._settings):
            response = self._pool.request(
                "GET", self._url, headers=headers, preload_content=False, redirect=True
            )
        self._require_success(response, at)
        return response

    def blocks(self, at: int, etag: str | None) -> Iterator[bytes]:
        response = self.request(at, etag)
        try:
            with _url_errors(self.shown, self._settings):
                yield from response.stream(_BLOCK, decode_content=False)
        finally:
            response.close()

    def _require_success(self, response: Any, at: int) -> None:
        status = response.status
        if status == (206 if at else 200):
            return
        response.close()
        if status == 404:
            raise SourceMissing(f"{self.shown} does not exist (404).")
        if status in (400, 401, 403):
            raise SourceRefused(
                f"{self.shown} was refused ({status}).", hint="A presigned URL is valid for about an hour."
            )
        if at and status == 200:
            raise SourceRefused(f"{self.shown} was replaced while it was read, or cannot be resumed.")
        raise SourceUnreachable(f"{self.shown} answered {status}.")


class _url_errors:  # noqa: N801  used like a function
    """Turns urllib3's and the socket's errors into the package's own."""

    def __init__(self, shown: str, settings: StoreSettings) -> None:
        self._shown, self._settings = shown, settings

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (urllib3.exceptions.SSLError, ssl.SSLError)):
            raise StoreUntrusted(
                f"{self._shown}: the certificate was not accepted ({error}).",
                hint=f"The CA that was tried: {self._settings.ca_file or 'the system store'}.",
            ) from error
        if isinstance(error, (urllib3.exceptions.HTTPError, OSError)):
            raise SourceUnreachable(f"{self._shown} did not answer or broke off ({error}).") from error
