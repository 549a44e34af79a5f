"""Unpacking a model archive: streamed, nothing trusted, only the files that a conversion reads.

An archive comes from a bucket that others can write to. So a member is a regular file with a plain name, or the
archive is refused as a whole; pickles are skipped and never reach the disk; sizes, counts and headers are bounded;
the gzip checksum is read to its end, since a tar that is cut off at a member's border looks complete.
"""

import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from nllb_predictor.convert.inflate import BLOCK, Blocks, ahead, inflated
from nllb_predictor.convert.names import CHECKPOINT_FILES, PICKLE_NAMES
from nllb_predictor.disk import disk_errors
from nllb_predictor.errors import BrokenArchive, EmptyArchive, UnsafeArchive

_HEADER_LIMIT = 64 * 1024
"""Bytes of a long name or of extended headers, which the tar library reads into memory as a whole."""

_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, b"X")
_PLAIN = re.compile(r"[^\x00-\x1f\x7f/\\]{1,255}")


@dataclass(frozen=True)
class Limits:
    """Beyond these an archive is refused."""

    members: int = 1000
    """Serval's archives have about 15."""

    bytes: int = 64 * 1024**3
    """Unpacked. The largest NLLB that one GPU serves is 13 GB in float32."""


@dataclass(frozen=True)
class Unpacked:
    """What was found."""

    written: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def pickles(self) -> list[str]:
        """Names of pickled weights among the skipped."""
        return [
            name
            for name in self.skipped
            if name in PICKLE_NAMES or re.fullmatch(r"pytorch_model.*\.bin", name)
        ]


class _Header(tarfile.TarInfo):
    """A tar header whose extensions are bounded before the library reads them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        header = super().frombuf(buf, encoding, errors)
        if header.type in _EXTENDED and header.size > _HEADER_LIMIT:
            raise UnsafeArchive(f"An extended header of the archive is {header.size} bytes long.")
        if header.size < 0:
            raise UnsafeArchive("A member of the archive has a negative size.")
        return header


def unpack(stream: BinaryIO, folder: Path, name: str, limits: Limits | None = None) -> Unpacked:
    """Write the checkpoint's files from a gzip tar `stream` into `folder`; `name` is for messages.

    Raises EmptyArchive for an archive without members, BrokenArchive, UnsafeArchive and NoSpace.
    """
    limits = limits or Limits()
    try:
        with ahead(inflated(stream)) as blocks:
            unzipped = Blocks(blocks)
            found = _unpack_tar(unzipped, folder, name, limits)
            _drain(unzipped, limits)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BrokenArchive(f"{name} is not a complete gzip tar ({error}).") from error
    if not found.written and not found.skipped:
        raise EmptyArchive(
            f"{name} holds no files: the engine was stored without training.",
            hint="Name the model that it is based on with --base FOLDER|URI, and the languages.",
        )
    return found


def _unpack_tar(unzipped: Blocks, folder: Path, name: str, limits: Limits) -> Unpacked:
    written: list[str] = []
    skipped: list[str] = []
    total = 0
    # The library only ever reads from it, and in pieces of this size.
    file = cast("BinaryIO", unzipped)
    with tarfile.open(fileobj=file, mode="r|", bufsize=BLOCK, tarinfo=_Header, encoding="utf-8") as tar:
        for count, member in enumerate(tar, 1):
            if count > limits.members:
                raise UnsafeArchive(f"{name} has more than {limits.members} members.")
            plain = _plain_name(member)
            if plain is None:
                continue
            total += member.size
            if total > limits.bytes:
                raise UnsafeArchive(f"{name} unpacks to more than {limits.bytes} bytes.")
            if plain in written or plain in skipped:
                raise UnsafeArchive(f"{name} has two members named {plain!r}.")
            if plain in CHECKPOINT_FILES or plain.endswith(".safetensors"):
                _write(tar, member, folder / plain)
                written.append(plain)
            else:
                skipped.append(plain)
            # The library keeps every header for random access, which a stream does not have.
            tar.members = []  # type: ignore[attr-defined]
    return Unpacked(tuple(written), tuple(skipped))


def _plain_name(member: tarfile.TarInfo) -> str | None:
    """The member's plain file name; None for the archive's own folder (`.`). Raises UnsafeArchive."""
    shown = repr(member.name)[:120]
    try:
        member.name.encode("utf-8")
    except UnicodeEncodeError:
        raise UnsafeArchive(f"The member {shown} has a name that is not UTF-8.") from None
    if member.isdir() and member.name.rstrip("/") in (".", ""):
        return None
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise UnsafeArchive(f"The member {shown} is {_kind(member)}, not a regular file.")
    plain = member.name.removeprefix("./")
    if plain in (".", "..") or not _PLAIN.fullmatch(plain):
        raise UnsafeArchive(f"The member {shown} has a name that is no plain file name.")
    return plain


def _kind(member: tarfile.TarInfo) -> str:
    kinds = {
        tarfile.SYMTYPE: "a symbolic link",
        tarfile.LNKTYPE: "a hard link",
        tarfile.CHRTYPE: "a device",
        tarfile.BLKTYPE: "a device",
        tarfile.FIFOTYPE: "a pipe",
        tarfile.DIRTYPE: "a folder",
    }
    return kinds.get(member.type, "of an unusual type")


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = tar.extractfile(member)
    if source is None:
        raise BrokenArchive(f"The member {member.name!r} has no content.")
    with disk_errors(path), path.open("xb") as target:
        while block := source.read(BLOCK):
            target.write(block)


def _drain(unzipped: Blocks, limits: Limits) -> None:
    """Read on to the gzip checksum, which only the end of the stream verifies."""
    rest = 0
    while block := unzipped.read():
        rest += len(block)
        if rest > limits.bytes:
            raise UnsafeArchive("The archive goes on without end after its last member.")
