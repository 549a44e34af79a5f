"""A checkpoint's tensors in CTranslate2's specification of a Transformer.

The specification names and validates every variable; its values here are read, quantized and written one at a time
while the library saves the file, so that no more than one matrix is ever in memory. Query, key and value (in cross
attention: key and value) become one matrix, as CTranslate2 wants them; the three uses of a tied embedding are
aliases of one stored variable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2 import specs
from ctranslate2.specs import model_spec

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.manifest import Quantization
from nllb_predictor.convert.quantize import ELEMENT_BYTES, PLANS, Array, Plan, Stored, pack, to_float
from nllb_predictor.convert.tensors import Floats, Rows
from nllb_predictor.progress import Step

SHARED_VARIABLE = "decoder/embeddings/weight"
POSITIONS_VARIABLE = "decoder/position_encodings/encodings"


class _Matrix:
    """A weight on its way into the file; packed when its bytes are asked for, and then only its scale is kept."""

    def __init__(self, matrix: Rows, stored: Stored, name: str) -> None:
        self.matrix, self.stored, self.name = matrix, stored, name
        self._scale: Array | None = None

    def values(self) -> Array:
        packed = pack(self.matrix, self.stored, self.name)
        self._scale = packed.scale
        return packed.values

    def scale(self) -> Array:
        # The library writes variables by name, so `weight` comes before `weight_scale`.
        if self._scale is None:
            self._scale = pack(self.matrix, self.stored, self.name).scale
        if self._scale is None:
            raise AssertionError(f"{self.name} as {self.stored} has no scale")
        return self._scale


class _Variable(model_spec.Variable):  # type: ignore[misc]
    """What the library asks of a variable when it writes one."""

    def __init__(self, shape: tuple[int, ...], stored: Stored, read: Callable[[], Array]) -> None:
        self._shape, self._stored, self._read = shape, stored, read
        self.written: Callable[[int], None] = lambda count: None
        """Hears the size when the bytes were handed out."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        return self._stored.value

    def numpy(self) -> Array:
        return self._read()

    def num_bytes(self) -> int:
        return int(np.prod(self._shape, dtype=np.int64)) * ELEMENT_BYTES[self._stored]

    def to_bytes(self) -> memoryview:
        content = np.ascontiguousarray(self._read()).reshape(-1).view(np.uint8)
        self.written(content.nbytes)
        return content.data

    def _to(self, dtype: str) -> "_Variable":
        raise NotImplementedError(f"variables are made in their final type, not converted to {dtype}")

    def _equal(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class SpecBuilder:
    """Fills a specification from one checkpoint under one plan."""

    checkpoint: Checkpoint
    plan: Plan

    def build(self) -> Any:
        """A `TransformerSpec` with every variable set; vocabulary and aliases are not in it yet."""
        network = self.checkpoint.network
        encoder = specs.TransformerEncoderSpec(network.encoder_layers, network.encoder_heads)
        # Alignment as machine.py reads it: the mean over all heads (0) of the layer two thirds up.
        decoder = specs.TransformerDecoderSpec(
            network.decoder_layers,
            network.decoder_heads,
            alignment_layer=2 * network.decoder_layers // 3,
            alignment_heads=0,
        )
        spec = specs.TransformerSpec(encoder, decoder)
        self._embeddings(spec)
        for side, layers in (("encoder", encoder.layer), ("decoder", decoder.layer)):
            half = getattr(spec, side)
            half.scale_embeddings = network.embedding_scale
            self._norm(half.layer_norm, f"{side}.layer_norm")
            for number, layer in enumerate(layers):
                self._layer(layer, f"{side}.layers.{number}")
        return spec

    def _embeddings(self, spec: Any) -> None:
        checkpoint = self.checkpoint
        for embedding in (spec.encoder.embeddings[0], spec.decoder.embeddings):
            self._weight(embedding, checkpoint.embeddings, checkpoint.embeddings.name)
        self._weight(spec.decoder.projection, checkpoint.projection, checkpoint.projection.name)
        if (bias := checkpoint.logit_bias()) is not None:
            spec.decoder.projection.bias = self._values(bias, "final_logits_bias")
        for side in ("encoder", "decoder"):
            table = checkpoint.positions(side)
            getattr(spec, side).position_encodings.encodings = self._values(table, f"{side}.embed_positions")

    def _layer(self, layer: Any, prefix: str) -> None:
        self._attention(layer.self_attention, f"{prefix}.self_attn", (("q_proj", "k_proj", "v_proj"),))
        self._norm(layer.self_attention.layer_norm, f"{prefix}.self_attn_layer_norm")
        if hasattr(layer, "attention"):
            self._attention(layer.attention, f"{prefix}.encoder_attn", (("q_proj",), ("k_proj", "v_proj")))
            self._norm(layer.attention.layer_norm, f"{prefix}.encoder_attn_layer_norm")
        self._linear(layer.ffn.linear_0, f"{prefix}.fc1")
        self._linear(layer.ffn.linear_1, f"{prefix}.fc2")
        self._norm(layer.ffn.layer_norm, f"{prefix}.final_layer_norm")

    def _attention(self, spec: Any, prefix: str, groups: tuple[tuple[str, ...], ...]) -> None:
        """Each group of projections is one matrix; the output projection comes last."""
        width = self.checkpoint.network.width
        for linear, names in zip(spec.linear, (*groups, ("out_proj",)), strict=True):
            self._weight(linear, self.checkpoint.stacked(prefix, names), f"{prefix}.{'+'.join(names)}")
            biases = [self.checkpoint.vector(f"{prefix}.{name}.bias", width) for name in names]
            linear.bias = self._values(np.concatenate(biases), f"{prefix} biases")

    def _linear(self, spec: Any, name: str) -> None:
        weight = self.checkpoint.matrix(f"{name}.weight")
        self._weight(spec, weight, name)
        spec.bias = self._values(self.checkpoint.vector(f"{name}.bias", weight.shape[0]), f"{name}.bias")

    def _norm(self, spec: Any, name: str) -> None:
        width = self.checkpoint.network.width
        spec.gamma = self._values(self.checkpoint.vector(f"{name}.weight", width), f"{name}.weight")
        spec.beta = self._values(self.checkpoint.vector(f"{name}.bias", width), f"{name}.bias")

    def _weight(self, spec: Any, matrix: Rows, name: str) -> None:
        stored = self.plan.weights
        source = _Matrix(matrix, stored, name)
        spec.weight = _Variable(matrix.shape, stored, source.values)
        if stored in (Stored.INT8, Stored.INT16):
            shape = matrix.shape[:1] if stored is Stored.INT8 else ()
            spec.weight_scale = _Variable(shape, Stored.FLOAT32, source.scale)

    def _values(self, values: Floats, name: str) -> _Variable:
        converted = to_float(values, self.plan.others, name)
        return _Variable(values.shape, self.plan.others, lambda: converted)


def build_spec(checkpoint: Checkpoint, quantization: Quantization, names: list[str]) -> Any:
    """The complete specification: variables, one name per embedding row, configuration, aliases.

    Raises BrokenCheckpoint where a tensor is missing or of a wrong shape.
    """
    spec = SpecBuilder(checkpoint, PLANS[quantization]).build()
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    # Fails on a variable that the specification has and this module forgot.
    spec.validate()
    _alias(spec, checkpoint)
    return spec


def set_tokens(spec: Any, tokens: dict[str, str]) -> None:
    """Names of the special tokens in the model's own configuration; the source gets none added by the engine."""
    for key in ("bos_token", "eos_token", "unk_token", "decoder_start_token"):
        setattr(spec.config, key, tokens[key])
    spec.config.add_source_bos = spec.config.add_source_eos = False


def spec_bytes(spec: Any) -> int:
    """Size of all variables as they will be stored."""
    return sum(variable.num_bytes() for variable in _own_variables(spec))


def save_spec(spec: Any, folder: Path, step: Step) -> None:
    """Write `model.bin`, `config.json` and `shared_vocabulary.json` into an existing folder."""
    for variable in _own_variables(spec):
        variable.written = step.advance
    spec.save(str(folder))


def _own_variables(spec: Any) -> list[_Variable]:
    """Without aliases, which are names, and the library's scalars."""
    return [variable for variable in spec.variables().values() if isinstance(variable, _Variable)]


def _alias(spec: Any, checkpoint: Checkpoint) -> None:
    """Store what is the same only once. A variable whose value is a name is an alias to the library."""
    users = [spec.encoder.embeddings[0]]
    if checkpoint.projection is checkpoint.embeddings:
        users.append(spec.decoder.projection)
    for user in users:
        user.weight = SHARED_VARIABLE
        # The library finds the scale of an aliased weight beside the weight itself.
        user.weight_scale = model_spec.OPTIONAL
    if np.array_equal(checkpoint.positions("encoder"), checkpoint.positions("decoder")):
        spec.encoder.position_encodings.encodings = POSITIONS_VARIABLE
