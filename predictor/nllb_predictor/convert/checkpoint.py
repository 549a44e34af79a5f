"""A HuggingFace M2M100 checkpoint as a folder: its network's shape and its tensors, checked before any work.

It refuses what it cannot read safely or compute rightly: pickled weights, other architectures, missing shards.
Buffers that a checkpoint may or may not hold (tied copies, position tables, a logit bias) are found here, so that
nothing later asks what this particular file happened to contain.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nllb_predictor.convert.names import CONFIG_FILE, INDEX_FILE, PICKLE_NAMES, WEIGHTS_FILE
from nllb_predictor.convert.tensors import Floats, NamedRows, Stacked, Tensor, chunks, read_safetensors
from nllb_predictor.errors import (
    BrokenCheckpoint,
    BrokenConfig,
    MissingFile,
    PickleOnly,
    UnsupportedArchitecture,
)
from nllb_predictor.jsonfiles import read_json_object

_POSITION_OFFSET = 2
"""M2M100 counts positions from the padding id + 1; the two rows before that are never used."""

_SHARED = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)


@dataclass(frozen=True)
class Network:
    """Shape of the network, from `config.json`."""

    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    width: int
    activation: str
    scale_embedding: bool
    positions: int
    tied: bool

    @property
    def embedding_scale(self) -> float:
        """Factor on every embedding before its position is added."""
        return math.sqrt(self.width) if self.scale_embedding else 1.0

    @staticmethod
    def from_config(config: dict[str, Any]) -> "Network":
        """Raises UnsupportedArchitecture and BrokenConfig."""
        kind = config.get("model_type")
        if kind != "m2m_100":
            raise UnsupportedArchitecture(
                f"config.json says model_type {kind!r}; only m2m_100 (NLLB) is converted."
            )
        if config.get("quantization_config"):
            raise UnsupportedArchitecture(
                "The checkpoint is quantized already; convert the original weights."
            )
        network = Network(
            encoder_layers=_integer(config, "encoder_layers"),
            decoder_layers=_integer(config, "decoder_layers"),
            encoder_heads=_integer(config, "encoder_attention_heads"),
            decoder_heads=_integer(config, "decoder_attention_heads"),
            width=_integer(config, "d_model"),
            activation=str(config.get("activation_function", "relu")),
            scale_embedding=bool(config.get("scale_embedding", True)),
            positions=_integer(config, "max_position_embeddings"),
            tied=bool(config.get("tie_word_embeddings", True)),
        )
        network._check()
        return network

    def _check(self) -> None:
        # The self-test computes relu only; NLLB and M2M100 know nothing else.
        if self.activation != "relu":
            raise UnsupportedArchitecture(
                f"activation_function is {self.activation!r}; only relu is converted."
            )
        for heads in (self.encoder_heads, self.decoder_heads):
            if self.width % heads:
                raise BrokenConfig(
                    f"config.json: d_model {self.width} is not a multiple of {heads} attention heads."
                )


def _integer(config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise BrokenConfig(f"config.json: {key} must be an integer of at least 1, not {value!r}.")
    return value


class Checkpoint:
    """The folder, opened. Tensors are named as in the files, without the leading `model.`."""

    def __init__(self, folder: Path) -> None:
        """Raises MissingFile, BrokenConfig, PickleOnly, UnsupportedArchitecture and BrokenCheckpoint."""
        self.folder = folder
        self.network = Network.from_config(read_json_object(folder / CONFIG_FILE))
        self._tensors = {
            tensor.name.removeprefix("model."): tensor
            for path in weight_files(folder)
            for tensor in read_safetensors(path).values()
        }
        self.embeddings: NamedRows
        self.projection: NamedRows
        self.embeddings, self.projection = self._embeddings()

    def matrix(self, name: str, rows: int | None = None, columns: int | None = None) -> Tensor:
        """A weight. Raises BrokenCheckpoint if it is missing or not [rows, columns]."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise BrokenCheckpoint(f"The checkpoint has no tensor {name}.")
        shape = tensor.data.shape
        wanted = (rows or shape[0], columns or shape[-1])
        if tensor.data.ndim != 2 or shape != wanted:
            raise BrokenCheckpoint(f"{name} has shape {list(shape)}, expected {list(wanted)}.")
        return tensor

    def vector(self, name: str, size: int) -> Floats:
        """A bias or a norm's values, float32 [size]. Raises BrokenCheckpoint."""
        values = self.any_vector(name)
        if values.shape != (size,):
            raise BrokenCheckpoint(f"{name} has {values.shape[0]} values, expected {size}.")
        return values

    def any_vector(self, name: str) -> Floats:
        """The same without an expectation of its size."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise BrokenCheckpoint(f"The checkpoint has no tensor {name}.")
        if tensor.data.ndim != 1:
            raise BrokenCheckpoint(f"{name} has shape {list(tensor.data.shape)}, expected a vector.")
        return tensor.vector()

    @property
    def rows(self) -> int:
        """Embedding rows; at least the tokenizer's tokens, often a few more."""
        return self.embeddings.shape[0]

    def positions(self, side: str) -> Floats:
        """Position table of `encoder` or `decoder`, float32 [positions, width], from the file if it is stored."""
        stored = self._tensors.get(f"{side}.embed_positions.weights")
        if stored is None:
            return self._sinusoids
        count, width = stored.shape
        if stored.data.ndim != 2 or width != self.network.width or count <= _POSITION_OFFSET:
            raise BrokenCheckpoint(f"{stored.name} has shape {list(stored.data.shape)}.")
        return np.ascontiguousarray(stored.rows(_POSITION_OFFSET, count))

    @cached_property
    def _sinusoids(self) -> Floats:
        return sinusoids(self.network.positions, self.network.width)

    def logit_bias(self) -> Floats | None:
        """Bias of the output projection, float32 [rows], where the file has one that is not all zero."""
        total: Floats | None = None
        for name in ("final_logits_bias", "lm_head.bias"):
            tensor = self._tensors.get(name)
            if tensor is None:
                continue
            bias = tensor.vector()
            if bias.shape != (self.rows,):
                raise BrokenCheckpoint(f"{name} has {bias.shape[0]} values for {self.rows} embedding rows.")
            total = bias if total is None else total + bias
        return total if total is not None and total.any() else None

    def stacked(self, prefix: str, names: tuple[str, ...]) -> Stacked:
        """Square projections of one attention block as one matrix, in this order."""
        width = self.network.width
        return Stacked(tuple(self.matrix(f"{prefix}.{name}.weight", width, width) for name in names))

    def _embeddings(self) -> tuple[Tensor, Tensor]:
        """The embedding and the output projection: one tensor unless `tie_word_embeddings` is false."""
        names = [name.removeprefix("model.") for name in _SHARED]
        found = [self._tensors[name] for name in names if name in self._tensors]
        if not found:
            raise BrokenCheckpoint(f"The checkpoint has no embedding: none of {', '.join(names)}.")
        for tensor in found:
            self.matrix(tensor.name.removeprefix("model."), columns=self.network.width)
        projection = self._tensors.get("lm_head.weight")
        tied = found if self.network.tied or projection is None else [t for t in found if t is not projection]
        if not tied:
            raise BrokenCheckpoint("The checkpoint has an output projection but no embedding.")
        for other in tied[1:]:
            _require_equal(tied[0], other)
        return tied[0], projection if projection is not None and not self.network.tied else tied[0]


def _require_equal(one: Tensor, other: Tensor) -> None:
    """Tied copies must be the same numbers: which of two different ones was trained cannot be known."""
    if one.data.shape != other.data.shape:
        shapes = f"{list(one.data.shape)} and {list(other.data.shape)}"
        raise BrokenCheckpoint(f"{one.name} and {other.name} should be tied but have shapes {shapes}.")
    for start, rows in chunks(one):
        if not np.array_equal(rows, other.rows(start, start + len(rows))):
            raise BrokenCheckpoint(
                f"{one.name} and {other.name} should be tied but differ after row {start}."
            )


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint folder, one or many. Raises MissingFile, PickleOnly and BrokenConfig."""
    single, index = folder / WEIGHTS_FILE, folder / INDEX_FILE
    if single.is_file():
        return [single]
    if not index.is_file():
        pickled = [name for name in PICKLE_NAMES if (folder / name).exists()]
        if pickled:
            raise pickle_only(pickled)
        raise MissingFile(f"{folder} has neither {WEIGHTS_FILE} nor {INDEX_FILE}.")
    paths = [folder / name for name in shard_names(read_json_object(index))]
    for path in paths:
        if not path.is_file():
            raise MissingFile(f"{folder} has no {path.name}, which {INDEX_FILE} names.")
    return paths


def shard_names(index: dict[str, Any]) -> list[str]:
    """File names that an index file names. Raises BrokenConfig: a name must not lead out of the folder."""
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise BrokenConfig(f"{INDEX_FILE} has no weight_map.")
    names = sorted({str(name) for name in mapping.values()})
    for name in names:
        if "/" in name or not name.endswith(".safetensors"):
            raise BrokenConfig(f"{INDEX_FILE} names {name!r}, which is no safetensors file beside it.")
    return names


def pickle_only(names: list[str]) -> PickleOnly:
    """The refusal, with the way out."""
    return PickleOnly(
        f"The checkpoint has its weights only as {', '.join(names)}; a pickle runs code when it is loaded.",
        hint="Save it with safe_serialization=True where you trust it.",
    )


def sinusoids(positions: int, width: int) -> Floats:
    """M2M100's position table without the two unused rows, float32 [positions, width].

    All steps in float32, as training computed them: sines first, cosines second, frequencies from 1 to 1/10,000.
    """
    half = width // 2
    step = np.float32(math.log(10000) / (half - 1)) if half > 1 else np.float32(0)
    frequencies = np.exp(np.arange(half, dtype=np.float32) * -step)
    numbers = np.arange(_POSITION_OFFSET, positions + _POSITION_OFFSET, dtype=np.float32)
    angles = numbers[:, None] * frequencies[None, :]
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.pad(table, ((0, 0), (0, width - table.shape[1]))).astype(np.float32)
