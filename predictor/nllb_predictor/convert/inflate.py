"""A gzip stream inflated on a thread of its own, a few blocks ahead of whoever reads it.

Inflating is most of what unpacking costs, and writing to the disk most of the rest; zlib and the system call both
work without Python's lock, so together they take as long as the first alone. zlib itself compares each gzip member's
checksum and length. It refuses to run far ahead: a reader that stops reading stops the thread.
"""

import queue
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

BLOCK = 64 * 1024
"""Most bytes of an inflated block. Small blocks stay in the processor's cache and are memory that the allocator uses
again; larger ones are new pages of the system each time, which costs more than the copying."""

_INPUT = 16 * 1024
_AHEAD = 128
"""Blocks, together 8 MiB: as long as the disk takes to swallow a burst."""

_LEAVE_SECONDS = 1.0

_GZIP = 31
"""zlib's window bits for the largest window in a gzip wrapper."""


def inflated(stream: BinaryIO) -> Iterator[bytes]:
    """Blocks of all gzip members of `stream`, zero padding between and after them left out.

    Raises zlib.error for what is not gzip or does not have its checksum, EOFError for a member without its end.
    """
    rest = stream.read(_INPUT)
    while rest:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            rest = rest or stream.read(_INPUT)
            block = member.decompress(rest, BLOCK)
            # With no input left zlib may still hold output, so only nothing from nothing is the end.
            if not (rest or block or member.eof):
                raise EOFError("the compressed stream ends before its end mark")
            rest = member.unconsumed_tail
            if block:
                yield block
        rest = _after_padding(member.unused_data, stream)


def _after_padding(rest: bytes, stream: BinaryIO) -> bytes:
    rest = rest.lstrip(b"\0")
    while not rest and (more := stream.read(_INPUT)):
        rest = more.lstrip(b"\0")
    return rest


class Blocks:
    """Blocks as a file that can only be read onwards."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def read(self, size: int = BLOCK) -> bytes:
        """The next block, whatever its length up to `size`, which must not be less than BLOCK; empty at the end."""
        if size < BLOCK:
            raise ValueError(f"blocks have up to {BLOCK} bytes, {size} are too few to hold one")
        return next(self._blocks, b"")


@contextmanager
def ahead(blocks: Iterator[bytes]) -> Iterator[Iterator[bytes]]:
    """The same blocks, fetched on another thread; an error is raised where its block would have come.

    The thread has ended when the context ends well. Where it ends badly, the thread may be waiting for a network that
    sends nothing, and a process that was told to leave does not wait for that: it is given a moment and then left.
    """
    fetched: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def fetch() -> None:
        end: BaseException | None = None
        try:
            for block in blocks:
                fetched.put(block)
                if stop.is_set():
                    return
        except BaseException as error:
            end = error
        fetched.put(end)

    def taken() -> Iterator[bytes]:
        while isinstance(found := fetched.get(), bytes):
            yield found
        if found is not None:
            raise found

    thread = threading.Thread(target=fetch, name="inflate", daemon=True)
    thread.start()
    patience: float | None = _LEAVE_SECONDS
    try:
        yield taken()
        patience = None
    finally:
        stop.set()
        # Room for the block in its hand and for the end.
        while not fetched.empty():
            fetched.get()
        thread.join(patience)
