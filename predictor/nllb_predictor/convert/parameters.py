"""Two sources of numbers for the forward pass: the checkpoint itself, and the model file that was written.

The checkpoint's numbers can be rounded as the model file stores them. Then the two must agree to float32's accuracy
whatever the quantization is, and a swapped or damaged tensor cannot hide behind the quantization's own error.
"""

from dataclasses import dataclass

import numpy as np

from nllb_predictor.convert.checkpoint import Checkpoint, Network
from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.quantize import Plan, Stored, from_stored, int8_scales, int16_scale, to_float
from nllb_predictor.convert.tensors import Floats, Rows, Stacked


@dataclass(frozen=True)
class _Rounded:
    """A matrix whose rows lose what the stored type cannot hold."""

    matrix: Rows
    stored: Stored
    scale: np.float32 | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def rows(self, start: int, stop: int) -> Floats:
        rows = self.matrix.rows(start, stop)
        if self.stored is Stored.INT8:
            scales = int8_scales(rows, "a weight", start)[:, None]
            rounded = rows * scales
            np.rint(rounded, out=rounded)
            return np.divide(rounded, scales, out=rounded)
        if self.scale is not None:
            whole: Floats = np.rint(rows * self.scale) / self.scale
            return whole
        return from_stored(to_float(rows, self.stored, "a weight"), self.stored, None)


class CheckpointParameters:
    """The original tensors; with a plan, rounded as that plan stores them."""

    def __init__(self, checkpoint: Checkpoint, plan: Plan | None = None) -> None:
        self._checkpoint, self._plan = checkpoint, plan
        self.heads = heads(checkpoint.network)
        self.embedding_scale = checkpoint.network.embedding_scale
        self._scales: dict[tuple[str, ...], np.float32] = {}

    def weight(self, *names: str) -> Rows:
        tensors = tuple(self._checkpoint.matrix(name) for name in names)
        return self._rounded(Stacked(tensors), names)

    def vector(self, name: str) -> Floats:
        return self._narrow(self._checkpoint.any_vector(name))

    def positions(self, side: str) -> Floats:
        return self._narrow(self._checkpoint.positions(side))

    @property
    def embedding(self) -> Rows:
        return self._rounded(self._checkpoint.embeddings, ("embedding",))

    @property
    def projection(self) -> Rows:
        return self._rounded(self._checkpoint.projection, ("projection",))

    def logit_bias(self) -> Floats | None:
        bias = self._checkpoint.logit_bias()
        return None if bias is None else self._narrow(bias)

    def _rounded(self, matrix: Rows, names: tuple[str, ...]) -> Rows:
        if self._plan is None or self._plan.weights is Stored.FLOAT32:
            return matrix
        if self._plan.weights is Stored.INT16 and names not in self._scales:
            self._scales[names] = int16_scale(matrix, names[0])
        return _Rounded(matrix, self._plan.weights, self._scales.get(names))

    def _narrow(self, values: Floats) -> Floats:
        if self._plan is None or self._plan.others is Stored.FLOAT32:
            return values
        return from_stored(to_float(values, self._plan.others, "a vector"), self._plan.others, None)


@dataclass(frozen=True)
class _Part:
    """Some rows of a variable in a model file."""

    file: ModelFile
    name: str
    start: int
    count: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.count, self.file.stored(self.name).data.shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        return self.file.floats(self.name, self.start + start, self.start + min(stop, self.count))


_LINEAR = {
    "self_attn.q_proj": ("self_attention/linear_0", 0),
    "self_attn.k_proj": ("self_attention/linear_0", 1),
    "self_attn.v_proj": ("self_attention/linear_0", 2),
    "self_attn.out_proj": ("self_attention/linear_1", 0),
    "encoder_attn.q_proj": ("attention/linear_0", 0),
    "encoder_attn.k_proj": ("attention/linear_1", 0),
    "encoder_attn.v_proj": ("attention/linear_1", 1),
    "encoder_attn.out_proj": ("attention/linear_2", 0),
    "fc1": ("ffn/linear_0", 0),
    "fc2": ("ffn/linear_1", 0),
}
"""Where CTranslate2 stores each projection: variable, and which block of `width` rows."""

_NORMS = {
    "self_attn_layer_norm": "self_attention/layer_norm",
    "encoder_attn_layer_norm": "attention/layer_norm",
    "final_layer_norm": "ffn/layer_norm",
}
_NORM_VALUES = {"weight": "gamma", "bias": "beta"}


class FileParameters:
    """The numbers of a written `model.bin`, by the checkpoint's names."""

    def __init__(self, file: ModelFile, network: Network) -> None:
        self._file, self._width = file, network.width
        self.heads = heads(network)
        self.embedding_scale = float(file.stored("encoder/scale_embeddings").data)

    def weight(self, *names: str) -> Rows:
        return Stacked(tuple(self._weight(name) for name in names))

    def vector(self, name: str) -> Floats:
        side, *rest = name.split(".")
        if rest[0] == "layer_norm":
            return self._file.floats(f"{side}/layer_norm/{_NORM_VALUES[rest[1]]}")
        place, kind, last = f"{side}/layer_{rest[1]}", ".".join(rest[2:-1]), rest[-1]
        if kind in _NORMS:
            return self._file.floats(f"{place}/{_NORMS[kind]}/{_NORM_VALUES[last]}")
        variable, block = _LINEAR[kind]
        values = self._file.floats(f"{place}/{variable}/bias")
        return values if kind in ("fc1", "fc2") else values[block * self._width : (block + 1) * self._width]

    def positions(self, side: str) -> Floats:
        return self._file.floats(f"{side}/position_encodings/encodings")

    @property
    def embedding(self) -> Rows:
        return self._whole("encoder/embeddings_0/weight")

    @property
    def projection(self) -> Rows:
        return self._whole("decoder/projection/weight")

    def logit_bias(self) -> Floats | None:
        name = "decoder/projection/bias"
        return self._file.floats(name) if name in self._file else None

    def _weight(self, name: str) -> Rows:
        side, _, number, *kind = name.removesuffix(".weight").split(".")
        variable, block = _LINEAR[".".join(kind)]
        full = f"{side}/layer_{number}/{variable}/weight"
        if kind[0] in ("fc1", "fc2"):
            return self._whole(full)
        return _Part(self._file, full, block * self._width, self._width)

    def _whole(self, name: str) -> Rows:
        return _Part(self._file, name, 0, self._file.stored(name).data.shape[0])


def heads(network: Network) -> dict[str, int]:
    """Attention heads by side."""
    return {"encoder": network.encoder_heads, "decoder": network.decoder_heads}
