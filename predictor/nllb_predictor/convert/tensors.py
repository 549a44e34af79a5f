"""Tensors of safetensors files, read through a mapping and handed out as float32 rows.

Nothing is ever read as a whole: a 600M checkpoint is 2.3 GB, and the process that converts it may have little more
than half of that. Mapped pages belong to the page cache and can be dropped; only the rows in hand are copied.
bfloat16, which numpy does not know, is the upper half of a float32.
"""

import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import safetensors

from nllb_predictor.errors import BrokenCheckpoint

Floats = npt.NDArray[np.float32]

CHUNK_BYTES = 1 << 20
"""float32 in hand at a time: all passes over a chunk then happen in the processor's cache."""

_DTYPES: dict[str, type[np.generic]] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class Rows(Protocol):
    """A matrix that can be read row by row."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def rows(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop` (exclusive) as float32 [n, columns]; may be a read-only view."""


class NamedRows(Rows, Protocol):
    """The same with the name under which it is stored."""

    @property
    def name(self) -> str: ...


def chunks(matrix: Rows) -> Iterator[tuple[int, Floats]]:
    """All rows in order, as (first row, float32 [n, columns])."""
    size = max(1, CHUNK_BYTES // (4 * matrix.shape[1]))
    for start in range(0, matrix.shape[0], size):
        yield start, matrix.rows(start, min(start + size, matrix.shape[0]))


def take(matrix: Rows, ids: npt.NDArray[np.int64]) -> Floats:
    """The rows with these numbers, float32 [len(ids), columns]."""
    return np.concatenate([matrix.rows(i, i + 1) for i in ids.tolist()])


@dataclass(frozen=True)
class Tensor:
    """One stored tensor; `data` is a mapped, read-only array (uint16 for bfloat16)."""

    name: str
    dtype: str
    data: npt.NDArray[np.generic]

    @property
    def shape(self) -> tuple[int, int]:
        """Of a matrix; a vector counts as one row."""
        if self.data.ndim == 1:
            return 1, self.data.shape[0]
        return self.data.shape[0], self.data.shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        part = self.data.reshape(self.shape)[start:stop]
        if self.dtype == "BF16":
            return (part.astype(np.uint32) << 16).view(np.float32)
        return part.astype(np.float32, copy=False)

    def vector(self) -> Floats:
        """All values in one dimension, float32."""
        return self.rows(0, self.shape[0]).reshape(-1)


@dataclass(frozen=True)
class Stacked:
    """Several matrices of equal width as one, rows below rows; nothing is copied before it is read."""

    parts: tuple[Rows, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        found, at = [], 0
        for part in self.parts:
            count = part.shape[0]
            if start < at + count and stop > at:
                found.append(part.rows(max(start - at, 0), min(stop - at, count)))
            at += count
        return found[0] if len(found) == 1 else np.concatenate(found)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, mapped. Raises BrokenCheckpoint for a damaged file or a dtype that is no float."""
    try:
        # The library checks what matters (header, offsets without holes, file length) and maps nothing that we keep.
        with safetensors.safe_open(str(path), framework="np"):
            pass
    except safetensors.SafetensorError as error:
        raise BrokenCheckpoint(f"{path.name} is damaged or cut off ({error}).") from error
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + size])
    tensors = {}
    for name, facts in header.items():
        if name != "__metadata__":
            tensors[name] = _tensor(mapped, 8 + size, name, facts)
    return tensors


def _tensor(mapped: mmap.mmap, base: int, name: str, facts: dict[str, object]) -> Tensor:
    dtype, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not (isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list)):
        raise BrokenCheckpoint(f"The header entry of {name} is malformed.")
    if dtype not in _DTYPES:
        raise BrokenCheckpoint(f"{name} is stored as {dtype}; weights must be F32, F16 or BF16.")
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        raise BrokenCheckpoint(f"{name} is empty.")
    data = np.frombuffer(mapped, dtype=_DTYPES[dtype], count=count, offset=base + int(offsets[0])).reshape(
        shape
    )
    return Tensor(name, dtype, data)
