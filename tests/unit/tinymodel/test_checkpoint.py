"""Files of a checkpoint: our writer against the `safetensors` library, and the layout that Serval's archives have."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tokenizers import Tokenizer

from tests.unit.tinymodel.support import SHAPE, TEXTS
from tinymodel.checkpoint import Deferred, Stored, read_safetensors, read_tensors, write_safetensors
from tinymodel.errors import BadCheckpoint
from tinymodel.flores import FLORES_CODES


def test_the_safetensors_library_reads_what_is_written(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    file = tmp_path / "a.safetensors"
    items: list[tuple[str, Stored | Deferred]] = [
        ("a", Stored.of(values)),
        ("b", Stored.of(values, "float16")),
        ("c", Deferred((2, 3), lambda: values + 1)),
    ]
    write_safetensors(file, items)
    found = safetensors.numpy.load_file(file)
    assert found["a"].dtype == np.float32
    assert found["b"].dtype == np.float16
    np.testing.assert_array_equal(found["a"], values)
    np.testing.assert_array_equal(found["b"], values)
    np.testing.assert_array_equal(found["c"], values + 1)


def test_what_the_safetensors_library_writes_is_read(tmp_path: Path) -> None:
    values = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    safetensors.numpy.save_file({"a": values, "b": values.astype(np.float16)}, tmp_path / "model.safetensors")
    found = read_tensors(tmp_path)
    np.testing.assert_array_equal(found["a"], values)
    np.testing.assert_array_equal(found["b"], values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("value", "bits"),
    [(1.0, 0x3F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (1.005859375, 0x3F81), (-2.5, 0xC020)],
)
def test_bfloat16_rounds_half_to_even(value: float, bits: int, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    write_safetensors(file, [("a", Stored.of(np.array([value], dtype=np.float32), "bfloat16"))])
    stored = read_safetensors(file)["a"]
    assert int.from_bytes(bytes(stored.data), "little") == bits


def test_a_missing_weights_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors"):
        read_tensors(tmp_path)


def test_the_layout_is_the_one_of_a_serval_archive(noise: Path) -> None:
    config = json.loads((noise / "config.json").read_text())
    generation = json.loads((noise / "generation_config.json").read_text())
    tokenizer = json.loads((noise / "tokenizer_config.json").read_text())
    vocabulary = json.loads((noise / "tokenizer.json").read_text())["model"]["vocab"]
    assert (config["model_type"], config["use_cache"], config["torch_dtype"]) == ("m2m_100", False, "float32")
    assert config["vocab_size"] == len(vocabulary) + 2
    assert generation["forced_bos_token_id"] == vocabulary["spa_Latn"]
    assert (generation["decoder_start_token_id"], generation["eos_token_id"], generation["pad_token_id"]) == (
        2,
        2,
        1,
    )
    assert (tokenizer["src_lang"], tokenizer["tgt_lang"]) == ("eng_Latn", "spa_Latn")
    assert tokenizer["legacy_behaviour"] is False
    assert tokenizer["added_tokens_decoder"][str(vocabulary["spa_Latn"])]["content"] == "spa_Latn"
    assert "model.shared.weight" in read_tensors(noise)


def test_tokens_lie_in_nllbs_order(noise: Path) -> None:
    vocabulary = json.loads((noise / "tokenizer.json").read_text())["model"]["vocab"]
    by_id = sorted(vocabulary, key=lambda token: int(vocabulary[token]))
    assert by_id[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert tuple(by_id[-203:-1]) == FLORES_CODES
    assert by_id[-1] == "<mask>"
    assert len(by_id) == SHAPE.tokens


def test_a_text_is_wrapped_in_the_source_code_and_the_end_token(noise: Path) -> None:
    encoding = Tokenizer.from_file(str(noise / "tokenizer.json")).encode(TEXTS[0])
    assert encoding.tokens[0] == "eng_Latn"
    assert encoding.tokens[-1] == "</s>"
    assert "".join(encoding.tokens[1:-1]).replace("▁", " ").strip() == TEXTS[0]
