"""One object to one file: ranges in parallel, each retried on its own, the whole checked by size and SHA-256."""

import hashlib
import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nllb_predictor.disk import disk_errors
from nllb_predictor.errors import ChecksumMismatch, StoreUnreachable
from nllb_predictor.progress import Step
from nllb_predictor.store.objects import ObjectFacts, ObjectStore, S3Uri
from nllb_predictor.store.settings import StoreSettings


@dataclass(frozen=True)
class Promise:
    """What the manifest promises of a file."""

    bytes: int
    sha256: str


def download(store: ObjectStore, uri: S3Uri, path: Path, settings: StoreSettings, step: Step) -> ObjectFacts:
    """Read `uri` into `path` (replaced if it exists) and return what the store says of it.

    All parts are of one version (ETag). Raises StoreError's family, and NoSpace where the disk is full.
    """
    facts = store.head(uri)
    part = settings.part_bytes
    ranges = [(start, min(start + part, facts.bytes)) for start in range(0, facts.bytes, part)]
    with disk_errors(path), path.open("wb") as file:
        file.truncate(facts.bytes)
        reader = _PartReader(store, uri, facts.etag, file.fileno(), settings, step)
        with ThreadPoolExecutor(settings.parallel, thread_name_prefix="download") as pool:
            try:
                for done in [pool.submit(reader.read, start, end) for start, end in ranges]:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return facts


@dataclass(frozen=True)
class _PartReader:
    """Reads parts of one version of an object into one open file; used by several threads."""

    _store: ObjectStore
    _uri: S3Uri
    _etag: str
    _descriptor: int
    _settings: StoreSettings
    _step: Step

    def read(self, start: int, end: int) -> None:
        """Read one part; after a broken connection it goes on where it was."""
        at = start
        for attempt in range(self._settings.attempts):
            try:
                for block in self._store.read_range(self._uri, at, end, self._etag):
                    os.pwrite(self._descriptor, block, at)
                    at += len(block)
                    self._step.advance(len(block))
                if at == end:
                    return
                raise StoreUnreachable(f"{self._uri}: an answer ended {end - at} bytes too early.")
            except StoreUnreachable:
                if attempt + 1 == self._settings.attempts:
                    raise
                time.sleep(min(0.2 * 2**attempt, 5.0))


def verify(path: Path, promise: Promise, name: str) -> None:
    """Raises ChecksumMismatch where the file is not what was promised."""
    require_size(path.stat().st_size, promise, name)
    digest = file_sha256(path)
    if digest != promise.sha256:
        raise ChecksumMismatch(f"{name} has SHA-256 {digest}, the manifest promises {promise.sha256}.")


def require_size(size: int, promise: Promise, name: str) -> None:
    """The cheap half of `verify`. Raises ChecksumMismatch."""
    if size != promise.bytes:
        raise ChecksumMismatch(f"{name} has {size} bytes, the manifest promises {promise.bytes}.")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, through a mapping and in one call: Python's lock is asked for once and not per block, which
    a thread beside busy ones would wait for each time."""
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        if os.fstat(file.fileno()).st_size == 0:
            return hashlib.sha256().hexdigest()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return hashlib.sha256(content).hexdigest()
