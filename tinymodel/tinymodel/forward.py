"""The M2M100 forward pass in plain numpy, with greedy search.

Why it exists: to check a widened model against its parent and against the references of `transformers` without torch
and without any converter. Written from the architecture, in float32, one sentence at a time.
What it refuses to do: be fast; the 600M shape takes seconds a word here.

Shapes: [length, width] for one sentence; logits [length, rows].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinymodel.checkpoint import Array
from tinymodel.settings import Shape
from tinymodel.widen import POSITION_OFFSET, sinusoidal_positions

EOS = 2
EPSILON = 1e-5


class Model:
    """Tensors by name and the shape that they have."""

    def __init__(self, tensors: Mapping[str, Array], shape: Shape) -> None:
        self._tensors = tensors
        self._shape = shape
        self._embedding = tensors["model.shared.weight"]

    def encode(self, source: Sequence[int]) -> Array:
        """Encoder states of `[code] pieces </s>`."""
        x = self._embed(source, "encoder")
        for layer in range(self._shape.layers):
            prefix = f"model.encoder.layers.{layer}"
            x = x + self._attend(f"{prefix}.self_attn", self._norm(x, f"{prefix}.self_attn_layer_norm"))
            x = x + self._feed(prefix, x)
        return self._norm(x, "model.encoder.layer_norm")

    def logits(self, states: Array, output: Sequence[int]) -> Array:
        """Logits after each of `output`, which begins with `</s>`."""
        x = self._embed(output, "decoder")
        for layer in range(self._shape.layers):
            prefix = f"model.decoder.layers.{layer}"
            x = x + self._attend(
                f"{prefix}.self_attn", self._norm(x, f"{prefix}.self_attn_layer_norm"), causal=True
            )
            x = x + self._attend(
                f"{prefix}.encoder_attn", self._norm(x, f"{prefix}.encoder_attn_layer_norm"), states
            )
            x = x + self._feed(prefix, x)
        result: Array = self._norm(x, "model.decoder.layer_norm") @ self._embedding.T
        return result

    def greedy(self, source: Sequence[int], forced: int, limit: int = 200) -> list[int]:
        """At most `limit` ids, from the target language to `</s>`."""
        states = self.encode(source)
        output = [EOS, forced]
        while output[-1] != EOS and len(output) <= limit:
            output.append(int(self.logits(states, output)[-1].argmax()))
        return output[1:]

    def _embed(self, ids: Sequence[int], side: str) -> Array:
        width = self._shape.width
        stored = self._tensors.get(f"model.{side}.embed_positions.weights")
        table = sinusoidal_positions(len(ids) + POSITION_OFFSET, width) if stored is None else stored
        positions = table[POSITION_OFFSET : POSITION_OFFSET + len(ids)]
        embedded: Array = self._embedding[list(ids)] * np.float32(width**0.5) + positions
        return embedded

    def _linear(self, x: Array, name: str) -> Array:
        result: Array = x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]
        return result

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        result: Array = scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]
        return result

    def _feed(self, prefix: str, x: Array) -> Array:
        hidden = self._linear(self._norm(x, f"{prefix}.final_layer_norm"), f"{prefix}.fc1")
        return self._linear(np.maximum(hidden, 0), f"{prefix}.fc2")

    def _attend(self, name: str, x: Array, memory: Array | None = None, causal: bool = False) -> Array:
        memory = x if memory is None else memory
        heads = self._shape.heads

        def split(values: Array) -> Array:
            return values.reshape(len(values), heads, -1).transpose(1, 0, 2)

        query = split(self._linear(x, f"{name}.q_proj"))
        key, value = (
            split(self._linear(memory, f"{name}.k_proj")),
            split(self._linear(memory, f"{name}.v_proj")),
        )
        weights = query @ key.transpose(0, 2, 1) / np.float32(query.shape[-1] ** 0.5)
        if causal:
            weights = np.where(np.tri(len(x), dtype=bool), weights, np.float32(-np.inf))
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = (weights @ value).transpose(1, 0, 2).reshape(len(x), -1)
        return self._linear(joined, f"{name}.out_proj")


def log_softmax(logits: Array) -> Array:
    """Natural-log probabilities over the last axis."""
    shifted: Any = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
