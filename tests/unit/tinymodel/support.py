"""Random weights of a shape, by the names that transformers gives them."""

import numpy as np

from tinymodel.checkpoint import Array
from tinymodel.settings import Languages, Shape

LANGUAGES = Languages()
TEXTS = (
    "The river rose and the bridge held, and nobody slept that night.",
    "El río creció y el puente resistió, y nadie durmió aquella noche.",
) * 3
SHAPE = Shape(width=16, layers=2, heads=4, ffn=32, tokens=290, spare_rows=2, max_positions=64)
WIDE = Shape(width=64, layers=4, heads=8, ffn=128, tokens=700, spare_rows=2, max_positions=64)


def random_tensors(shape: Shape, generator: np.random.Generator) -> dict[str, Array]:
    """Float32 tensors with norms near one and everything else of ordinary size."""

    def normal(*size: int, scale: float = 0.3) -> Array:
        return generator.normal(0, scale, size).astype(np.float32)

    tensors = {"model.shared.weight": normal(shape.tokens + shape.spare_rows, shape.width)}

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + normal(shape.width, scale=0.1)
        tensors[f"{name}.bias"] = normal(shape.width, scale=0.1)

    def linear(name: str, outputs: int, inputs: int) -> None:
        tensors[f"{name}.weight"] = normal(outputs, inputs)
        tensors[f"{name}.bias"] = normal(outputs, scale=0.1)

    for side in ("encoder", "decoder"):
        norm(f"model.{side}.layer_norm")
        for layer in range(shape.layers):
            prefix = f"model.{side}.layers.{layer}"
            for attention in ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",):
                norm(f"{prefix}.{attention}_layer_norm")
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    linear(f"{prefix}.{attention}.{projection}", shape.width, shape.width)
            norm(f"{prefix}.final_layer_norm")
            linear(f"{prefix}.fc1", shape.ffn, shape.width)
            linear(f"{prefix}.fc2", shape.width, shape.ffn)
    return tensors
