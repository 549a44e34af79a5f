"""What a predictor asks for: a model in a local folder, complete and as its manifest promises.

From S3 it comes into a cache whose folders are named by the manifest's digest: two revisions never mix, a restart
reuses what is there, and two processes that want the same never write into each other. A converted folder on a mount
is used where it lies; its weights may be checked while they are being opened, since reading them twice one after the
other is a noticeable part of a cold start. Raw checkpoints are refused here; `convert.cached` turns them into models
first.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.manifest import MANIFEST_LIMIT, MANIFEST_NAME, FileEntry, Manifest
from nllb_predictor.disk import disk_errors, require_space, whole_folder
from nllb_predictor.errors import ChecksumMismatch, ObjectMissing
from nllb_predictor.progress import NoProgress, Progress
from nllb_predictor.store.objects import ObjectStore, S3Objects, S3Uri
from nllb_predictor.store.settings import StoreSettings
from nllb_predictor.store.transfer import Promise, download, require_size, verify

MODEL_FILE = "model.bin"


@dataclass(frozen=True)
class LocalModel:
    """A converted model that can be opened."""

    folder: Path
    manifest: Manifest | None
    """None for a folder that another converter made: nothing is known of it but its files."""
    manifest_sha256: str | None
    unchecked: tuple[FileEntry, ...] = ()
    """Files of the right size whose content was not compared yet: `check` before anything of the model is used."""

    def check(self, progress: Progress | None = None) -> None:
        """Compare the content of what is unchecked with the manifest. Raises ChecksumMismatch."""
        _verify(self.folder, self.unchecked, progress or NoProgress())


class ModelStore:
    """Brings artifacts to this machine."""

    def __init__(self, settings: StoreSettings | None = None, objects: ObjectStore | None = None) -> None:
        self._settings = settings or StoreSettings.from_env()
        self._objects = objects

    @property
    def objects(self) -> ObjectStore:
        """The S3 seam; made on first use, since a folder needs no client."""
        if self._objects is None:
            self._objects = S3Objects(self._settings)
        return self._objects

    def fetch(
        self, uri: str, manifest_sha256: str | None, cache_dir: Path, progress: Progress | None = None
    ) -> LocalModel:
        """The model at `uri`: `s3://…/<artifactKey>/` or a converted folder.

        With `manifest_sha256`, exactly that manifest is accepted. Raises ObjectMissing, ChecksumMismatch,
        ManifestInvalid, StoreError's other kinds, and NoSpace. Safe to call from several processes at once.
        """
        model = self.locate(uri, manifest_sha256, cache_dir, progress)
        model.check(progress)
        return replace(model, unchecked=())

    def locate(
        self, uri: str, manifest_sha256: str | None, cache_dir: Path, progress: Progress | None = None
    ) -> LocalModel:
        """The same, except that a folder's weights are left for the caller to `check`, beside other work."""
        if uri.startswith("s3://"):
            return self._from_s3(S3Uri.parse(uri), manifest_sha256, cache_dir, progress or NoProgress())
        return open_folder(Path(uri.removeprefix("file://")), manifest_sha256)

    def _from_s3(self, uri: S3Uri, wanted: str | None, cache_dir: Path, progress: Progress) -> LocalModel:
        # The pinned digest names the cache folder, so a restart in the same pod needs no store at all.
        if wanted and (cached := self._cached(cache_dir / wanted, wanted)):
            return cached
        stored = self.objects.get(uri.below(MANIFEST_NAME), MANIFEST_LIMIT)
        digest = manifest_json.digest(stored)
        _require_digest(str(uri.below(MANIFEST_NAME)), digest, wanted)
        manifest = manifest_json.parse(stored)
        with _one_at_a_time(cache_dir, digest):
            if cached := self._cached(cache_dir / digest, digest):
                return cached
            self._download(uri, manifest, stored, cache_dir / digest, progress)
        return LocalModel(cache_dir / digest, manifest, digest)

    def _cached(self, folder: Path, digest: str) -> LocalModel | None:
        """A complete cache entry. The folder took its name only when every file in it was checked."""
        path = folder / MANIFEST_NAME
        if not path.is_file():
            return None
        stored = path.read_bytes()
        if manifest_json.digest(stored) != digest:
            return None
        manifest = manifest_json.parse(stored)
        sizes = all(_size(folder / entry.path) == entry.bytes for entry in manifest.files)
        return LocalModel(folder, manifest, digest) if sizes else None

    def _download(
        self, uri: S3Uri, manifest: Manifest, stored: bytes, target: Path, progress: Progress
    ) -> None:
        attempt = uri if manifest.identity.attempt == "." else uri.below(manifest.identity.attempt)
        total = sum(entry.bytes for entry in manifest.files)
        require_space(target.parent, total, "The model")
        with whole_folder(target, replace=True) as work, progress.step("download model", total) as step:
            for entry in manifest.files:
                download(self.objects, attempt.below(entry.path), work / entry.path, self._settings, step)
                verify(work / entry.path, Promise(entry.bytes, entry.sha256), str(attempt.below(entry.path)))
            (work / MANIFEST_NAME).write_bytes(stored)


def open_folder(folder: Path, wanted: str | None) -> LocalModel:
    """A converted folder where it lies; its files are checked against its manifest if it has one, the weights by
    their size alone.

    Raises ObjectMissing if there is no converted model, ChecksumMismatch and ManifestInvalid.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        if not (folder / MODEL_FILE).is_file():
            raise ObjectMissing(
                f"{folder} holds no converted model: it has neither {MANIFEST_NAME} nor {MODEL_FILE}."
            )
        if wanted:
            raise ChecksumMismatch(
                f"{folder} has no {MANIFEST_NAME}, but the one with SHA-256 {wanted} is wanted."
            )
        return LocalModel(folder, None, None)
    stored = path.read_bytes()
    digest = manifest_json.digest(stored)
    _require_digest(str(path), digest, wanted)
    manifest = manifest_json.parse(stored)
    files = folder if manifest.identity.attempt == "." else folder / manifest.identity.attempt
    for entry in manifest.files:
        if (size := _size(files / entry.path)) is None:
            raise ObjectMissing(f"{files / entry.path} does not exist, but the manifest names it.")
        require_size(size, Promise(entry.bytes, entry.sha256), str(files / entry.path))
    weights = tuple(entry for entry in manifest.files if entry.path == MODEL_FILE)
    _verify(files, tuple(entry for entry in manifest.files if entry not in weights), NoProgress())
    return LocalModel(files, manifest, digest, weights)


def _verify(folder: Path, entries: tuple[FileEntry, ...], progress: Progress) -> None:
    if not entries:
        return
    with progress.step("check model", sum(entry.bytes for entry in entries)) as step:
        for entry in entries:
            verify(folder / entry.path, Promise(entry.bytes, entry.sha256), str(folder / entry.path))
            step.advance(entry.bytes)


def _require_digest(name: str, digest: str, wanted: str | None) -> None:
    if wanted and digest != wanted:
        raise ChecksumMismatch(f"{name} has SHA-256 {digest}, but {wanted} is wanted.")


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


@contextmanager
def _one_at_a_time(cache_dir: Path, digest: str) -> Iterator[None]:
    """Holds a lock beside the cache entry: the second process waits and then finds the entry complete."""
    with disk_errors(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(cache_dir / f".{digest}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
