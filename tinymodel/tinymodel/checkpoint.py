"""Reads and writes checkpoints as Serval's archives hold them, with numpy alone.

Why it exists: widening and the variants of a checkpoint must not need torch, and numpy knows no bfloat16; its values
are carried as the upper half of a float32.

What it refuses to do: read pickles.
"""

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymodel.errors import BadCheckpoint
from tinymodel.settings import Languages, Shape
from tinymodel.vocabulary import write_json

Array = npt.NDArray[Any]
FLOAT_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as it lies in a safetensors file: `dtype` by the format's name, `data` its little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview | bytes

    @classmethod
    def of(cls, values: Array, dtype: str = "float32") -> "Stored":
        """`values` (float32) as one of FLOAT_NAMES; bfloat16 is rounded half to even."""
        shape = tuple(values.shape)
        if dtype == "bfloat16":
            bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
            halves = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
            return cls("BF16", shape, halves.tobytes())
        plain = np.ascontiguousarray(values, dtype="<f2" if dtype == "float16" else "<f4")
        return cls(FLOAT_NAMES[dtype], shape, plain.reshape(-1).view(np.uint8).data)

    def values(self) -> Array:
        """The tensor as float32."""
        if self.dtype == "BF16":
            halves = np.frombuffer(self.data, dtype="<u2").astype("<u4")
            return (halves << 16).view("<f4").reshape(self.shape)
        kind = {"F32": "<f4", "F16": "<f2"}.get(self.dtype)
        if kind is None:
            raise BadCheckpoint(
                f"tensor of type {self.dtype}; only {', '.join(FLOAT_NAMES.values())} are known"
            )
        return np.frombuffer(self.data, dtype=kind).reshape(self.shape).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A float32 tensor that is made when it is written."""

    shape: tuple[int, ...]
    make: Callable[[], Array]


def read_tensors(folder: Path) -> dict[str, Array]:
    """All tensors of a checkpoint folder as float32, sharded or not."""
    files = [folder / WEIGHTS]
    if (index := folder / INDEX).exists():
        files = [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    tensors: dict[str, Array] = {}
    for file in files:
        if not file.exists():
            raise BadCheckpoint(f"{file} is missing")
        tensors |= {name: stored.values() for name, stored in read_safetensors(file).items()}
    return tensors


def read_safetensors(file: Path) -> dict[str, Stored]:
    """The tensors of one file, as stored."""
    content = memoryview(file.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(bytes(content[8 : 8 + length]))
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: Stored(
            entry["dtype"],
            tuple(entry["shape"]),
            content[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]],
        )
        for name, entry in header.items()
    }


def write_safetensors(file: Path, tensors: Iterable[tuple[str, Stored | Deferred]]) -> None:
    """One file, tensors in the given order; deferred ones are in memory one at a time."""
    items = list(tensors)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in items:
        size = 4 * math.prod(tensor.shape) if isinstance(tensor, Deferred) else len(tensor.data)
        dtype = "F32" if isinstance(tensor, Deferred) else tensor.dtype
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(encoded)))
        out.write(encoded)
        for _, tensor in items:
            out.write(Stored.of(tensor.make()).data if isinstance(tensor, Deferred) else tensor.data)


def config(shape: Shape, rows: int, name: str) -> dict[str, Any]:
    """config.json of a model of `shape` with `rows` embedding rows; `name` is the base model's."""
    sides = ("encoder", "decoder")
    return {
        "_name_or_path": name,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "architectures": ["M2M100ForConditionalGeneration"],
        "attention_dropout": 0.1,
        "bos_token_id": 0,
        "d_model": shape.width,
        **{f"{side}_attention_heads": shape.heads for side in sides},
        **{f"{side}_ffn_dim": shape.ffn for side in sides},
        **{f"{side}_layerdrop": 0 for side in sides},
        **{f"{side}_layers": shape.layers for side in sides},
        "decoder_start_token_id": 2,
        "dropout": 0.1,
        "eos_token_id": 2,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "max_length": None,
        "max_position_embeddings": shape.max_positions,
        "model_type": "m2m_100",
        "num_hidden_layers": shape.layers,
        "pad_token_id": 1,
        "scale_embedding": True,
        "tokenizer_class": "NllbTokenizer",
        "torch_dtype": "float32",
        "transformers_version": "4.47.1",
        "use_cache": False,
        "vocab_size": rows,
    }


def generation_config(forced_bos: int) -> dict[str, Any]:
    """generation_config.json with the target language's id."""
    return {
        "_from_model_config": True,
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "forced_bos_token_id": forced_bos,
        "max_length": 200,
        "pad_token_id": 1,
        "transformers_version": "4.47.1",
    }


def write_checkpoint(
    folder: Path, shape: Shape, languages: Languages, tree: Mapping[str, Any], tensors: Mapping[str, Array]
) -> None:
    """config.json, generation_config.json and model.safetensors; the tokenizer's files are written by `vocabulary`."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = tensors["model.shared.weight"].shape[0]
    write_json(folder / "config.json", config(shape, rows, "serval-live/tiny-nllb"))
    write_json(folder / "generation_config.json", generation_config(tree["model"]["vocab"][languages.target]))
    write_safetensors(folder / WEIGHTS, [(name, Stored.of(tensors[name])) for name in sorted(tensors)])
