"""Weights in the stored types of CTranslate2, a few thousand rows at a time.

The arithmetic is CTranslate2's own, so that its kernels read what they expect: int8 with one scale per row
(127 / largest magnitude, rounded half to even), int16 with one scale per matrix (2^10 / largest magnitude). The
library's `spec.optimize` is not used: it holds a float32 copy of everything and writes into its input, which a
read-only mapping cannot allow.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from nllb_predictor.convert.manifest import Quantization
from nllb_predictor.convert.tensors import Floats, Rows, chunks
from nllb_predictor.errors import BrokenCheckpoint

Array = npt.NDArray[Any]


class Stored(StrEnum):
    """Element type in the model file."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    INT16 = "int16"


@dataclass(frozen=True)
class Plan:
    """Which element type weights get, and which everything else."""

    weights: Stored
    others: Stored


PLANS: dict[Quantization, Plan] = {
    Quantization.INT8: Plan(Stored.INT8, Stored.FLOAT32),
    Quantization.INT8_FLOAT32: Plan(Stored.INT8, Stored.FLOAT32),
    Quantization.INT8_FLOAT16: Plan(Stored.INT8, Stored.FLOAT16),
    Quantization.INT8_BFLOAT16: Plan(Stored.INT8, Stored.BFLOAT16),
    Quantization.INT16: Plan(Stored.INT16, Stored.FLOAT32),
    Quantization.FLOAT16: Plan(Stored.FLOAT16, Stored.FLOAT16),
    Quantization.BFLOAT16: Plan(Stored.BFLOAT16, Stored.BFLOAT16),
    Quantization.FLOAT32: Plan(Stored.FLOAT32, Stored.FLOAT32),
}

ELEMENT_BYTES = {Stored.FLOAT32: 4, Stored.FLOAT16: 2, Stored.BFLOAT16: 2, Stored.INT8: 1, Stored.INT16: 2}


@dataclass(frozen=True)
class Packed:
    """A matrix as it is stored; `scale` only for integers: float32 [rows] for int8, float32 [] for int16."""

    values: Array
    scale: Array | None


def pack(matrix: Rows, stored: Stored, name: str) -> Packed:
    """The whole matrix in its stored form. Raises BrokenCheckpoint for values that it cannot hold."""
    if stored is Stored.INT8:
        return _pack_int8(matrix, name)
    if stored is Stored.INT16:
        return _pack_int16(matrix, name)
    if stored is Stored.FLOAT32 and (whole := matrix.rows(0, matrix.shape[0])).flags.c_contiguous:
        # A view into the mapping, or the one copy that joining needs.
        for start, rows in chunks(matrix):
            _require_finite(rows, name, start)
        return Packed(whole, None)
    values = np.empty(matrix.shape, dtype=np.uint16 if stored is Stored.BFLOAT16 else stored.value)
    for start, rows in chunks(matrix):
        values[start : start + len(rows)] = to_float(rows, stored, name)
    return Packed(values, None)


def to_float(values: Floats, stored: Stored, name: str) -> Array:
    """Floats in a narrower type; bfloat16 as uint16, rounded half to even. Raises BrokenCheckpoint on overflow."""
    _require_finite(values, name, 0)
    if stored is Stored.BFLOAT16:
        return float32_to_bfloat16(values)
    with np.errstate(over="ignore"):
        converted = values.astype(stored.value)
    if not np.isfinite(converted).all():
        raise BrokenCheckpoint(
            f"{name} holds values up to {np.abs(values).max():g}, too large for {stored.value}."
        )
    return converted


def from_stored(values: Array, stored: Stored, scale: Array | None) -> Floats:
    """float32 of stored rows; `scale` [rows] or [] for integers."""
    if stored is Stored.BFLOAT16:
        return bfloat16_to_float32(values)
    floats = values.astype(np.float32)
    if scale is None:
        return floats
    unpacked: Floats = floats / (scale[:, None] if scale.ndim else scale)
    return unpacked


def float32_to_bfloat16(values: Floats) -> Array:
    """Upper 16 bits, rounded half to even, as uint16."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def bfloat16_to_float32(values: Array) -> Floats:
    """The float32 with these upper 16 bits."""
    bits = values.astype(np.uint32) << np.uint32(16)
    widened: Floats = bits.view(np.float32)
    return widened


def int8_scales(rows: Floats, name: str, start: int) -> Floats:
    """One scale per row; a row of zeros has scale 1. float32 [n]."""
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    if not np.isfinite(largest).all():
        raise _not_finite(name, start)
    largest[largest == 0] = 127.0
    # A scale must stay finite for rows that are almost zero.
    largest = np.maximum(largest, np.float32(127) / np.finfo(np.float32).max)
    scales: Floats = np.float32(127.0) / largest
    return scales


def int16_scale(matrix: Rows, name: str) -> np.float32:
    """One scale for the whole matrix."""
    largest = np.float32(0)
    for start, rows in chunks(matrix):
        found = max(rows.max(), -rows.min())
        if not np.isfinite(found):
            raise _not_finite(name, start)
        largest = max(largest, found)
    return np.float32(2**10) / (largest or np.float32(2**10))


def _pack_int8(matrix: Rows, name: str) -> Packed:
    values = np.empty(matrix.shape, dtype=np.int8)
    scales = np.empty(matrix.shape[0], dtype=np.float32)
    for start, rows in chunks(matrix):
        stop = start + len(rows)
        scales[start:stop] = int8_scales(rows, name, start)
        scaled = rows * scales[start:stop, None]
        values[start:stop] = np.rint(scaled, out=scaled)
    return Packed(values, scales)


def _pack_int16(matrix: Rows, name: str) -> Packed:
    scale = int16_scale(matrix, name)
    values = np.empty(matrix.shape, dtype=np.int16)
    for start, rows in chunks(matrix):
        values[start : start + len(rows)] = np.rint(rows * scale)
    return Packed(values, np.asarray(scale))


def _require_finite(values: Floats, name: str, start: int) -> None:
    if not np.isfinite(values).all():
        raise _not_finite(name, start)


def _not_finite(name: str, start: int) -> BrokenCheckpoint:
    return BrokenCheckpoint(f"{name} holds a value that is not a number or infinite, after row {start}.")
