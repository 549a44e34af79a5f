"""CTranslate2's `model.bin`, read back through a mapping, and small ones written into memory.

The library writes this format but cannot read it in Python. The self-test needs to look at what was really written,
not at what was meant to be. Layout (version 6, little endian): version, name, revision, then each variable as name,
rank, dimensions, type, size, bytes; then aliases as pairs of names. A name is its length with the closing zero byte
(u16), then its bytes.
"""

import io
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nllb_predictor.convert.quantize import Stored, from_stored
from nllb_predictor.convert.tensors import Floats
from nllb_predictor.errors import SelfTestFailed

Array = npt.NDArray[Any]

VERSION = 6
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")


@dataclass(frozen=True)
class Stub:
    """One variable: its type's name and its mapped array (uint16 for bfloat16)."""

    dtype: str
    data: Array


class ModelFile:
    """An open `model.bin`. Aliases are resolved."""

    def __init__(self, path: Path) -> None:
        """Raises SelfTestFailed if the file is not of the known version or ends too early."""
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        try:
            self._read()
        except struct.error as error:
            raise SelfTestFailed(f"{path.name} ends too early ({error}).") from error

    def _read(self) -> None:
        (version,) = self._take("<I")
        if version != VERSION:
            raise SelfTestFailed(f"model.bin has binary version {version}, expected {VERSION}.")
        self.spec_name = self._name()
        (self.revision,) = self._take("<I")
        (count,) = self._take("<I")
        self.variables = dict(self._variable() for _ in range(count))
        (aliases,) = self._take("<I")
        self.aliases = {self._name(): self._name() for _ in range(aliases)}
        if self._at != len(self._map):
            raise SelfTestFailed(f"model.bin has {len(self._map) - self._at} bytes after its end.")

    def __contains__(self, name: str) -> bool:
        return name in self.variables or name in self.aliases

    def stored(self, name: str) -> Stub:
        """A variable as it is stored. Raises SelfTestFailed if there is none of that name."""
        try:
            return self.variables[self.aliases.get(name, name)]
        except KeyError:
            raise SelfTestFailed(f"model.bin has no variable {name}.") from None

    def floats(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        """Rows of a variable as float32, unpacked with its scale."""
        stub = self.stored(name)
        values = stub.data[start:stop] if stub.data.ndim else stub.data
        scale = None
        if name.endswith("/weight") and stub.dtype in ("int8", "int16"):
            whole = self.stored(f"{self.aliases.get(name, name)}_scale").data
            scale = whole[start:stop] if whole.ndim else whole
        return from_stored(values, Stored(stub.dtype), scale)

    def _variable(self) -> tuple[str, Stub]:
        name = self._name()
        (rank,) = self._take("<B")
        shape = self._take(f"<{rank}I")
        kind, size = self._take("<BI")
        dtype = np.dtype(np.uint16 if _TYPES[kind] == "bfloat16" else _TYPES[kind])
        count = int(np.prod(shape, dtype=np.int64))
        if count * dtype.itemsize != size or self._at + size > len(self._map):
            raise SelfTestFailed(f"model.bin: the size of {name} does not fit its shape.")
        data = np.frombuffer(self._map, dtype, count, self._at).reshape(shape)
        self._at += size
        return name, Stub(_TYPES[kind], data)

    def _name(self) -> str:
        (length,) = self._take("<H")
        raw = self._map[self._at : self._at + length - 1]
        self._at += length
        return raw.decode()

    def _take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(form, self._map, self._at)
        self._at += struct.calcsize(form)
        return found


def serialise(name: str, revision: int, variables: Mapping[str, Stub], aliases: Mapping[str, str]) -> bytes:
    """A `model.bin` in memory."""
    out = io.BytesIO()
    out.write(struct.pack("<I", VERSION) + _packed(name) + struct.pack("<II", revision, len(variables)))
    for key, stub in sorted(variables.items()):
        out.write(_packed(key) + struct.pack(f"<B{stub.data.ndim}I", stub.data.ndim, *stub.data.shape))
        out.write(struct.pack("<BI", _TYPES.index(stub.dtype), stub.data.nbytes))
        out.write(np.ascontiguousarray(stub.data).reshape(-1).view(np.uint8).data)
    out.write(struct.pack("<I", len(aliases)))
    for alias, target in aliases.items():
        out.write(_packed(alias) + _packed(target))
    return out.getvalue()


def _packed(name: str) -> bytes:
    raw = name.encode()
    return struct.pack("<H", len(raw) + 1) + raw + b"\0"
