"""Each way in which a conversion fails has its own reason, exit code and message, and leaves nothing behind."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nllb_predictor import errors
from tests.support.cases import case
from tests.support.checkpoints import (
    CODES,
    Recipe,
    make_checkpoint,
    make_tokenizer,
    weights,
    write_weights,
)
from tests.support.refusals import cut_weights, edit_json, pickled, refused

ROWS = make_tokenizer(CODES).get_vocab_size() + 2
Change = Callable[[Path], object]

pytestmark = pytest.mark.usefixtures("own_process_settings")


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def configure(**changes: Any) -> Change:
    return lambda folder: edit_json(folder / "config.json", **changes)


def rewrite(change: Callable[[dict[str, Any]], object]) -> Change:
    def spoil(folder: Path) -> None:
        tensors = weights(Recipe(), ROWS)
        change(tensors)
        write_weights(folder, tensors)

    return spoil


def other_copy(tensors: dict[str, Any]) -> None:
    changed = tensors["model.shared.weight"].copy()
    changed[17, 3] += 1
    tensors["lm_head.weight"] = changed


def one_token_twice(folder: Path) -> None:
    document = json.loads((folder / "tokenizer.json").read_bytes())
    document["added_tokens"].append({**document["added_tokens"][-1], "content": "xyz_Latn"})
    (folder / "tokenizer.json").write_text(json.dumps(document))


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


FOLDERS: list[tuple[str, Change, type[errors.PredictorError], str]] = [
    ("no config", remove("config.json"), errors.MissingFile, "has no config.json"),
    ("no tokenizer", remove("tokenizer.json"), errors.MissingFile, "has no tokenizer.json"),
    ("no weights", remove("model.safetensors"), errors.MissingFile, "neither model.safetensors nor"),
    ("only pickle", pickled, errors.PickleOnly, "pytorch_model.bin"),
    ("config no JSON", text("config.json", "{"), errors.BrokenConfig, "config.json is not JSON"),
    ("config a list", text("config.json", "[]"), errors.BrokenConfig, "config.json does not hold"),
    (
        "tokenizer no JSON",
        text("tokenizer.json", "<html>"),
        errors.BrokenConfig,
        "tokenizer.json is not JSON",
    ),
    ("no width", configure(d_model=None), errors.BrokenConfig, "d_model"),
    ("odd heads", configure(encoder_attention_heads=5), errors.BrokenConfig, "5 attention heads"),
    ("other model", configure(model_type="marian"), errors.UnsupportedArchitecture, "'marian'"),
    ("no model type", configure(model_type=None), errors.UnsupportedArchitecture, "m2m_100"),
    ("other activation", configure(activation_function="gelu"), errors.UnsupportedArchitecture, "'gelu'"),
    ("quantized", configure(quantization_config={"bits": 4}), errors.UnsupportedArchitecture, "quantized"),
    ("cut weights", cut_weights, errors.BrokenCheckpoint, "model.safetensors is damaged"),
    (
        "no embedding",
        rewrite(lambda t: t.pop("model.shared.weight")),
        errors.BrokenCheckpoint,
        "no embedding",
    ),
    (
        "a tensor missing",
        rewrite(lambda t: t.pop("model.decoder.layers.1.encoder_attn.k_proj.weight")),
        errors.BrokenCheckpoint,
        "decoder.layers.1.encoder_attn.k_proj.weight",
    ),
    (
        "a bias missing",
        rewrite(lambda t: t.pop("model.encoder.layers.2.fc1.bias")),
        errors.BrokenCheckpoint,
        "encoder.layers.2.fc1.bias",
    ),
    (
        "a tensor of another shape",
        rewrite(
            lambda t: t.update(
                {"model.encoder.layers.0.self_attn.q_proj.weight": np.ones((3, 32), np.float32)}
            )
        ),
        errors.BrokenCheckpoint,
        r"q_proj.weight has shape \[3, 32\], expected \[32, 32\]",
    ),
    (
        "not a number",
        rewrite(lambda t: t["model.decoder.layers.0.fc2.weight"].fill(np.nan)),
        errors.BrokenCheckpoint,
        "decoder.layers.0.fc2",
    ),
    ("tied copies differ", rewrite(other_copy), errors.BrokenCheckpoint, "should be tied but differ"),
    ("an id twice", one_token_twice, errors.VocabularyMismatch, "'<mask>' and to 'xyz_Latn'"),
    ("other eos", configure(eos_token_id=7), errors.VocabularyMismatch, "eos_token_id 7"),
    (
        "languages disagree",
        lambda folder: edit_json(folder / "tokenizer_config.json", tgt_lang="fra_Latn"),
        errors.LanguagesDisagree,
        "fra_Latn.*spa_Latn",
    ),
    (
        "language without token",
        lambda folder: edit_json(folder / "tokenizer_config.json", src_lang="deu_Latn"),
        errors.LanguageNotInModel,
        "'deu_Latn'",
    ),
    (
        "forced token no language",
        lambda folder: edit_json(folder / "generation_config.json", forced_bos_token_id=9),
        errors.LanguagesDisagree,
        "no language code",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "error", "message"), [row[1:] for row in FOLDERS], ids=[row[0] for row in FOLDERS]
)
def test_a_spoiled_checkpoint_is_refused_with_its_reason(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Change,
    error: type[errors.PredictorError],
    message: str,
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    spoil(folder)
    found = refused(tmp_path, capsys, error, str(folder))
    assert re.search(message, found), found
    assert not (folder / "pickle-was-loaded").exists()


@case(
    "p34",
    breaks="nllb_predictor.convert.vocabulary:Vocabulary.for_rows",
    naive=lambda self, rows: list(self.tokens),
)
def test_p34_a_token_without_a_row_is_named_with_both_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(
        tmp_path / "checkpoint", replace(Recipe(), codes=(*CODES, "xyz_Latn"), extra_rows=-1)
    )
    tokens = make_tokenizer((*CODES, "xyz_Latn")).get_vocab_size()
    message = refused(tmp_path, capsys, errors.VocabularyMismatch, str(folder))
    assert f"{tokens} tokens" in message
    assert f"{tokens - 1} rows" in message
    assert "'<mask>'" in message


def test_a_missing_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(Recipe(), shards=2))
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors" in refused(tmp_path, capsys, errors.MissingFile, str(folder))


def test_an_index_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(Recipe(), shards=2))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "../../secret.safetensors"}})
    )
    assert "../../secret" in refused(tmp_path, capsys, errors.BrokenConfig, str(folder))


def test_integers_are_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"F32"', b'"I32"'))
    assert "I32" in refused(tmp_path, capsys, errors.BrokenCheckpoint, str(folder))
