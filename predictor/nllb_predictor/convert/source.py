"""Where a checkpoint comes from: a folder, an archive, an S3 object or folder, or a URL; always a folder afterwards.

S3 is read by exact keys only. A folder in S3 is fetched by the names that a checkpoint can have, not by listing: a
listing needs another permission and finds siblings.
"""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nllb_predictor.convert.archive import Unpacked, unpack
from nllb_predictor.convert.checkpoint import pickle_only, shard_names
from nllb_predictor.convert.manifest import Sha256, Source
from nllb_predictor.convert.names import CHECKPOINT_FILES, INDEX_FILE, PICKLE_NAMES, WEIGHTS_FILE
from nllb_predictor.convert.streams import HashingReader, Remote, open_url, resumed, without_query
from nllb_predictor.disk import require_space
from nllb_predictor.errors import (
    BrokenArchive,
    ConversionError,
    MissingFile,
    ObjectMissing,
    SourceMissing,
    SourceRefused,
    SourceUnreachable,
    StoreRefused,
    StoreUnreachable,
    UsageError,
)
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.progress import Progress
from nllb_predictor.store.objects import ObjectStore, S3Objects, S3Uri
from nllb_predictor.store.settings import StoreSettings
from nllb_predictor.store.transfer import download, file_sha256

_ARCHIVE_ENDS = (".tar.gz", ".tgz")
_REQUIRED = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class Fetched:
    """A checkpoint folder on this machine; `source.sha256` is empty until `with_digest` filled it for a folder."""

    folder: Path
    source: Source

    def with_digest(self) -> "Fetched":
        """With the digest of the folder's files, where an archive's is not known already. Reads everything once."""
        if self.source.sha256:
            return self
        digest, size = folder_digest(self.folder)
        return replace(self, source=replace(self.source, sha256=digest, bytes=size))


class SourceReader:
    """Brings checkpoints here."""

    def __init__(
        self, settings: StoreSettings, progress: Progress, objects: ObjectStore | None = None
    ) -> None:
        self._settings, self._progress, self._objects = settings, progress, objects

    def fetch(self, uri: str, work: Path) -> Fetched:
        """The checkpoint at `uri` as a folder; `work` is an empty folder for what has to be unpacked.

        Raises SourceMissing, SourceRefused, SourceUnreachable, the archive's errors, MissingFile and PickleOnly.
        """
        if uri.startswith("s3://"):
            with _store_errors():
                return self._from_s3(S3Uri.parse(uri), work)
        if uri.startswith(("https://", "http://")):
            return self._from_stream(open_url(uri, self._settings), work)
        if "://" in uri and not uri.startswith("file://"):
            raise UsageError(f"{without_query(uri)!r} is neither a path nor a URL of s3, https or http.")
        return self._from_path(Path(uri.removeprefix("file://")), work)

    def _from_path(self, path: Path, work: Path) -> Fetched:
        if path.is_dir():
            return Fetched(path, Source(str(path.absolute()), None, Sha256(""), 0))
        if not path.is_file():
            raise SourceMissing(f"{path} does not exist.")
        with path.open("rb") as file:
            blocks = iter(lambda: file.read(1 << 20), b"")
            remote = Remote(str(path.absolute()), None, path.stat().st_size, lambda at: blocks)
            return self._unpack(remote, blocks, work)

    def _from_s3(self, uri: S3Uri, work: Path) -> Fetched:
        store = self._objects or S3Objects(self._settings)
        if not uri.key.endswith(_ARCHIVE_ENDS):
            return _S3Folder(store, uri, work, self._settings, self._progress).fetch()
        facts = store.head(uri)

        def read_from(at: int) -> Iterator[bytes]:
            with _store_errors():
                yield from store.read_range(uri, at, facts.bytes, facts.etag)

        return self._from_stream(Remote(str(uri), facts.etag, facts.bytes, read_from), work)

    def _from_stream(self, remote: Remote, work: Path) -> Fetched:
        return self._unpack(remote, resumed(remote, self._settings.attempts), work)

    def _unpack(self, remote: Remote, blocks: Iterator[bytes], work: Path) -> Fetched:
        if remote.size == 0:
            raise BrokenArchive(f"{remote.uri} has no content (0 bytes).")
        require_space(work, remote.size, "The unpacked checkpoint")
        with self._progress.step("download and unpack", remote.size) as step:
            reader = HashingReader(blocks, step)
            found = unpack(io.BufferedReader(reader, 1 << 20), work, remote.uri)
            digest = reader.finish()
        _require_weights(found, remote.uri)
        return Fetched(work, Source(remote.uri, remote.etag, Sha256(digest), reader.count))


def folder_digest(folder: Path) -> tuple[Sha256, int]:
    """SHA-256 over the lines `<sha256>  <name>` of the files that a conversion reads, and their size together."""
    names = [name for name in CHECKPOINT_FILES if (folder / name).is_file()]
    names += [path.name for path in folder.glob("*.safetensors") if path.is_file()]
    lines = [f"{file_sha256(folder / name)}  {name}\n" for name in sorted(names)]
    size = sum((folder / name).stat().st_size for name in names)
    return Sha256(hashlib.sha256("".join(lines).encode()).hexdigest()), size


@dataclass(frozen=True)
class _S3Folder:
    """A checkpoint folder in S3, by the names that it can have."""

    store: ObjectStore
    uri: S3Uri
    work: Path
    settings: StoreSettings
    progress: Progress

    def fetch(self) -> Fetched:
        with self.progress.step("download checkpoint", None) as step:

            def get(name: str) -> bool:
                """Whether the file exists; a store without the right to list says 403 instead of 404."""
                try:
                    download(self.store, self.uri.below(name), self.work / name, self.settings, step)
                except ObjectMissing:
                    return False
                except StoreRefused:
                    if name in _REQUIRED:
                        raise
                    return False
                return True

            for name in CHECKPOINT_FILES:
                if not get(name) and name in _REQUIRED:
                    raise self._nothing(name)
            if (self.work / INDEX_FILE).is_file():
                for name in shard_names(read_json_object(self.work / INDEX_FILE)):
                    if not get(name):
                        raise MissingFile(f"{self.uri} has no {name}, which {INDEX_FILE} names.")
            elif not get(WEIGHTS_FILE):
                raise self._no_weights()
        return Fetched(self.work, Source(str(self.uri), None, Sha256(""), 0))

    def _nothing(self, name: str) -> ConversionError:
        if name == _REQUIRED[0]:
            return SourceMissing(f"{self.uri.below(name)} does not exist, so there is no checkpoint folder.")
        return MissingFile(f"{self.uri} has no {name}.")

    def _no_weights(self) -> ConversionError:
        pickled = [name for name in PICKLE_NAMES if self._exists(name)]
        if pickled:
            return pickle_only(pickled)
        return MissingFile(f"{self.uri} has neither {WEIGHTS_FILE} nor {INDEX_FILE}.")

    def _exists(self, name: str) -> bool:
        try:
            self.store.head(self.uri.below(name))
        except (ObjectMissing, StoreRefused):
            return False
        return True


def _require_weights(found: Unpacked, name: str) -> None:
    """The pickles stayed in the archive, so only here it is known that there were some."""
    if found.pickles and not any(file.endswith(".safetensors") for file in found.written):
        raise pickle_only(found.pickles)
    for required in _REQUIRED:
        if required not in found.written:
            raise MissingFile(f"{name} has no {required}.")


@contextmanager
def _store_errors() -> Iterator[None]:
    """The store's errors, said of a source: an operator retries them differently from those of the artifact store."""
    try:
        yield
    except ObjectMissing as error:
        raise SourceMissing(error.message, hint=error.hint) from error
    except StoreRefused as error:
        raise SourceRefused(error.message, hint=error.hint) from error
    except StoreUnreachable as error:
        raise SourceUnreachable(error.message, hint=error.hint) from error
