"""Archives with one thing wrong, written header by header where Python's own writer would refuse."""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path


def write_archive(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    """A gzip tar of exactly these members, in this order."""
    with tarfile.open(path, mode, format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]
        for header, content in members:
            tar.addfile(header, io.BytesIO(content))
    return path


def member(
    name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """One member; a link or device carries no content."""
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, link
    header.size = len(content) if kind in (tarfile.REGTYPE, tarfile.AREGTYPE) else 0
    return header, content


def folder_members(folder: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """All files of a folder as members."""
    return [member(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


def rewritten(path: Path, change: Callable[[bytearray], None]) -> Path:
    """Change the bytes inside the gzip layer."""
    content = bytearray(gzip.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(gzip.compress(bytes(content)))
    return path


def fix_header_checksum(content: bytearray, at: int) -> None:
    """Recompute the checksum of the 512-byte header at `at` after a change."""
    content[at + 148 : at + 156] = b" " * 8
    content[at + 148 : at + 156] = b"%06o\0 " % sum(content[at : at + 512])
