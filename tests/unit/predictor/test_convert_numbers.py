"""Stored numbers against CTranslate2's own quantizer, and the numpy forward pass against CTranslate2."""

import struct
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import numpy.typing as npt
import pytest
from ctranslate2.specs import common_spec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.forward import Depth, Sentence, forward
from nllb_predictor.convert.parameters import CheckpointParameters
from nllb_predictor.convert.quantize import Stored, bfloat16_to_float32, float32_to_bfloat16, pack
from nllb_predictor.convert.tensors import Tensor, chunks
from nllb_predictor.errors import BrokenCheckpoint
from nllb_predictor.text.tokenise import Tokenizer
from tests.support.checkpoints import make_checkpoint
from tests.support.conversion import convert_to

Array = npt.NDArray[np.float32]

matrices = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-1000, 1000, width=32),
)


def by_ctranslate2(matrix: Array, quantization: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Values and scale as the library stores them."""
    spec = common_spec.LinearSpec()
    spec.weight = matrix.copy()
    spec.validate()
    spec.optimize(quantization=quantization)
    scale = spec.weight_scale
    return spec.weight.numpy(), None if isinstance(scale, str) else scale.numpy()


@pytest.mark.parametrize("stored", [Stored.INT8, Stored.INT16, Stored.FLOAT16, Stored.FLOAT32])
@given(matrix=matrices)
@settings(deadline=None)
def test_stored_weights_are_those_of_the_librarys_own_quantizer(stored: Stored, matrix: Array) -> None:
    # The library divides by zero or overflows where nothing is larger than this; ours is tested below.
    assume(stored is not Stored.INT16 or np.abs(matrix).max() > 1e-30)
    values, scale = by_ctranslate2(matrix, stored.value)
    packed = pack(Tensor("w", "F32", matrix), stored, "w")
    np.testing.assert_array_equal(packed.values, values)
    assert (scale is None) == (packed.scale is None)
    if scale is not None and packed.scale is not None:
        np.testing.assert_allclose(packed.scale, scale, rtol=1e-7)


def test_a_matrix_longer_than_a_chunk_is_quantized_like_a_short_one() -> None:
    matrix = np.random.default_rng(1).standard_normal((700, 1024)).astype(np.float32)
    assert len(list(chunks(Tensor("w", "F32", matrix)))) > 1
    values, scale = by_ctranslate2(matrix, "int8")
    packed = pack(Tensor("w", "F32", matrix), Stored.INT8, "w")
    np.testing.assert_array_equal(packed.values, values)
    assert packed.scale is not None
    assert scale is not None
    np.testing.assert_array_equal(packed.scale, scale)


@pytest.mark.parametrize("stored", [Stored.INT8, Stored.INT16])
def test_a_matrix_of_zeros_stays_zero(stored: Stored) -> None:
    packed = pack(Tensor("w", "F32", np.zeros((3, 4), np.float32)), stored, "w")
    assert not packed.values.any()
    assert packed.scale is not None
    assert np.isfinite(packed.scale).all()


def test_quantizing_leaves_its_input_alone() -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    matrix.flags.writeable = False
    pack(Tensor("w", "F32", matrix), Stored.INT8, "w")
    np.testing.assert_array_equal(matrix, np.arange(12, dtype=np.float32).reshape(3, 4))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**127), max_value=2.0**127))
@settings(deadline=None)
def test_bfloat16_is_the_nearest_of_its_two_neighbours_and_even_on_a_tie(value: float) -> None:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    below, above = (struct.unpack("<f", struct.pack("<I", ((bits >> 16) + step) << 16))[0] for step in (0, 1))
    stored = float32_to_bfloat16(np.array([value], np.float32))
    found = float(bfloat16_to_float32(stored)[0])
    distances = abs(value - below), abs(above - value)
    if distances[0] != distances[1]:
        assert found == (below if distances[0] < distances[1] else above)
    else:
        assert found in (below, above)
        assert stored[0] % 2 == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stored", list(Stored))
def test_a_weight_that_is_no_number_is_refused_by_name(stored: Stored, value: float) -> None:
    matrix = np.ones((3, 4), np.float32)
    matrix[1, 2] = value
    with pytest.raises(BrokenCheckpoint, match="fc1"):
        pack(Tensor("w", "F32", matrix), stored, "fc1")


def test_a_weight_too_large_for_float16_is_refused() -> None:
    with pytest.raises(BrokenCheckpoint, match="70000"):
        pack(Tensor("w", "F32", np.full((2, 2), 70000, np.float32)), Stored.FLOAT16, "fc1")


def test_the_forward_pass_gives_the_librarys_logits_and_attention(tmp_path: Path) -> None:
    """Logits of every step, and cross attention of the alignment layer averaged over heads."""
    folder = make_checkpoint(tmp_path / "checkpoint")
    convert_to(folder, tmp_path / "model")
    tokenizer = Tokenizer.from_folder(folder)
    sources = tokenizer.encode(["In the beginning the earth was void", "the river"], "eng_Latn")
    prefix = ["spa_Latn", "▁the", "en", "a", "b"]
    results = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32").translate_batch(
        sources,
        target_prefix=[prefix] * 2,
        beam_size=1,
        max_decoding_length=len(prefix) + 1,
        min_decoding_length=0,
        return_logits_vocab=True,
        return_attention=True,
    )
    output = forward(
        CheckpointParameters(Checkpoint(folder)),
        Depth((0, 1, 2), (0, 1, 2)),
        [Sentence(ids(tokenizer, source), (2, *ids(tokenizer, prefix))) for source in sources],
    )
    for number, result in enumerate(results):
        seen = np.stack([np.array(step).reshape(-1) for step in result.logits[0]])
        np.testing.assert_allclose(seen, output.logits[number], atol=1e-5)
        attention = np.array(result.attention[0])[: len(prefix)]
        np.testing.assert_allclose(attention, output.attention[number][2][: len(prefix)], atol=1e-5)


def ids(tokenizer: Tokenizer, tokens: list[str]) -> tuple[int, ...]:
    found = tokenizer.ids(tokens)
    assert None not in found
    return tuple(i for i in found if i is not None)
