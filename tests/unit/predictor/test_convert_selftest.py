"""The self-test can fail: whatever is changed in a written model, it refuses it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.manifest import Quantization
from nllb_predictor.convert.selftest import self_test
from nllb_predictor.convert.vocabulary import read_vocabulary
from nllb_predictor.convert.weights import build_spec, save_spec, set_tokens
from nllb_predictor.errors import SelfTestFailed
from nllb_predictor.progress import NoProgress
from tests.support.cases import case
from tests.support.checkpoints import make_checkpoint
from tests.support.conversion import subject

ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "decoder_start_token": "</s>"}
QUANTIZATIONS = [Quantization.FLOAT32, Quantization.INT8, Quantization.FLOAT16]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("selftest") / "checkpoint")


def write(checkpoint: Path, model: Path, quantization: Quantization, change: Any = None) -> Path:
    """Convert without self-test; `change` may spoil the specification first."""
    opened = Checkpoint(checkpoint)
    spec = build_spec(opened, quantization, read_vocabulary(checkpoint).for_rows(opened.rows))
    set_tokens(spec, ROLES)
    if change is not None:
        change(spec)
    model.mkdir()
    save_spec(spec, model, NoProgress().step("save", None))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(checkpoint / name, model / name)
    return model


def swap(spec: Any, one: str, other: str) -> None:
    """Exchange two variables of the same shape, with their scales."""
    (first, name_a), (second, name_b) = _owner(spec, one), _owner(spec, other)
    for suffix in ("", "_scale"):
        a, b = getattr(first, name_a + suffix, None), getattr(second, name_b + suffix, None)
        if a is not None and b is not None:
            setattr(first, name_a + suffix, b)
            setattr(second, name_b + suffix, a)


def _owner(spec: Any, path: str) -> tuple[Any, str]:
    *places, last = path.split("/")
    for place in places:
        name, _, number = place.rpartition("_")
        spec = getattr(spec, place) if hasattr(spec, place) else getattr(spec, name)[int(number)]
    return spec, last


SWAPS = [
    ("encoder/layer_0/self_attention/linear_0/weight", "encoder/layer_1/self_attention/linear_0/weight"),
    ("decoder/layer_0/attention/linear_0/weight", "decoder/layer_0/attention/linear_2/weight"),
    ("decoder/layer_2/self_attention/linear_1/weight", "decoder/layer_2/attention/linear_2/weight"),
    ("decoder/layer_1/attention/linear_1/weight", "decoder/layer_2/attention/linear_1/weight"),
    ("encoder/layer_2/ffn/linear_1/weight", "decoder/layer_2/ffn/linear_1/weight"),
    ("encoder/layer_0/ffn/layer_norm/gamma", "encoder/layer_0/self_attention/layer_norm/gamma"),
    ("encoder/layer_norm/beta", "decoder/layer_norm/beta"),
    ("decoder/layer_1/ffn/linear_1/bias", "decoder/layer_1/self_attention/linear_1/bias"),
]


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_an_unspoiled_model_passes(checkpoint: Path, tmp_path: Path, quantization: Quantization) -> None:
    model = write(checkpoint, tmp_path / "model", quantization)
    found = self_test(subject(checkpoint, model, quantization), NoProgress())
    assert len(found.probes) == 2
    assert all(probe.tokens[0] == 201 for probe in found.probes)


@pytest.mark.parametrize(("one", "other"), SWAPS)
@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_two_swapped_tensors_are_refused(
    checkpoint: Path, tmp_path: Path, quantization: Quantization, one: str, other: str
) -> None:
    model = write(checkpoint, tmp_path / "model", quantization, lambda spec: swap(spec, one, other))
    with pytest.raises(SelfTestFailed, match="run alone, differ"):
        self_test(subject(checkpoint, model, quantization), NoProgress())


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_keys_in_the_place_of_values_are_refused(
    checkpoint: Path, tmp_path: Path, quantization: Quantization
) -> None:
    """A mapping that joins query, key and value in another order makes fluent nonsense."""

    def mix(spec: Any) -> None:
        linear = spec.decoder.layer[1].attention.linear[1]
        whole = linear.weight
        linear.weight = _Reordered(whole)
        if quantization is Quantization.INT8:
            linear.weight_scale = _Reordered(linear.weight_scale)

    model = write(checkpoint, tmp_path / "model", quantization, mix)
    with pytest.raises(SelfTestFailed, match="Layer 1"):
        self_test(subject(checkpoint, model, quantization), NoProgress())


class _Reordered:
    """A variable with its upper and lower half exchanged."""

    def __init__(self, variable: Any) -> None:
        self._variable = variable
        self.shape, self.dtype = variable.shape, variable.dtype

    def is_scalar(self) -> bool:
        return False

    def num_bytes(self) -> int:
        return int(self._variable.num_bytes())

    def to_bytes(self) -> bytes:
        content = bytes(self._variable.to_bytes())
        return content[len(content) // 2 :] + content[: len(content) // 2]


@pytest.mark.parametrize(
    "variable", ["decoder/layer_1/ffn/linear_0/weight", "decoder/embeddings/weight_scale"]
)
def test_a_few_flipped_bytes_in_the_file_are_refused(checkpoint: Path, tmp_path: Path, variable: str) -> None:
    model = write(checkpoint, tmp_path / "model", Quantization.INT8)
    content = bytearray((model / "model.bin").read_bytes())
    at = content.index(variable.encode() + b"\0") + len(variable) + 64
    content[at : at + 64] = bytes(byte ^ 0x40 for byte in content[at : at + 64])
    (model / "model.bin").write_bytes(content)
    with pytest.raises(SelfTestFailed):
        self_test(subject(checkpoint, model, Quantization.INT8), NoProgress())


def test_a_model_file_that_ends_too_early_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    model = write(checkpoint, tmp_path / "model", Quantization.INT8)
    content = (model / "model.bin").read_bytes()
    (model / "model.bin").write_bytes(content[: len(content) // 2])
    with pytest.raises(SelfTestFailed, match=r"model\.bin"):
        self_test(subject(checkpoint, model, Quantization.INT8), NoProgress())


@case("p36", breaks="nllb_predictor.convert.selftest:_same", naive=lambda what, seen, expected: None)
def test_p36_a_vocabulary_shifted_by_one_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """As when a library moves the unknown token to the end of the list: every other id is off by one."""
    model = write(checkpoint, tmp_path / "model", Quantization.FLOAT32)
    path = model / "shared_vocabulary.json"
    names = json.loads(path.read_bytes())
    names.append(names.pop(names.index("<unk>")))
    path.write_text(json.dumps(names))
    with pytest.raises(SelfTestFailed, match=r"The token 3 is .*expected '<unk>'"):
        self_test(subject(checkpoint, model, Quantization.FLOAT32), NoProgress())


def test_a_tokenizer_that_gives_other_ids_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    model = write(checkpoint, tmp_path / "model", Quantization.FLOAT32)
    document = json.loads((model / "tokenizer.json").read_bytes())
    vocabulary = document["model"]["vocab"]
    first, second = "a", "e"
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (model / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
    with pytest.raises(SelfTestFailed, match=r"tokenizer|id of"):
        self_test(subject(checkpoint, model, Quantization.FLOAT32), NoProgress())


def test_quantization_that_ruins_the_model_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """One huge weight per row leaves nothing of the others in int8; the layers are stored faithfully all the same."""
    spoiled = tmp_path / "spoiled"
    shutil.copytree(checkpoint, spoiled)
    from tests.support.checkpoints import CODES, Recipe, make_tokenizer, weights, write_weights

    tensors = weights(Recipe(), make_tokenizer(CODES).get_vocab_size() + 2)
    for name, tensor in tensors.items():
        if name.endswith(("fc1.weight", "q_proj.weight", "v_proj.weight")):
            # The first feature is silenced by its norm, so that the float32 model does not change.
            tensor[:, 0] = 500.0
        if "layer_norm" in name and not name.startswith(
            ("model.encoder.layer_norm", "model.decoder.layer_norm")
        ):
            tensor[0] = 0.0
    write_weights(spoiled, tensors)
    model = write(spoiled, tmp_path / "model", Quantization.INT8)
    with pytest.raises(SelfTestFailed, match=r"score|begins with"):
        self_test(subject(spoiled, model, Quantization.INT8), NoProgress())
    float_model = write(spoiled, tmp_path / "float", Quantization.FLOAT32)
    assert self_test(subject(spoiled, float_model, Quantization.FLOAT32), NoProgress()).probes
    np.testing.assert_array_equal(tensors["model.encoder.layers.0.fc1.weight"][:, 0], 500.0)
