"""A widened model answers like its parent. Checked in numpy, on noise."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.unit.tinymodel.support import SHAPE, WIDE
from tinymodel.checkpoint import read_tensors
from tinymodel.errors import BadCheckpoint, NotPreserved
from tinymodel.forward import EOS, Model, log_softmax
from tinymodel.variants import copy_checkpoint, edit_json, write_weights
from tinymodel.widen import NLLB_600M, Parent, Plan, sinusoidal_positions, token_ids, wide_tokenizer, widen
from tinymodel.widened import cached, check

SOURCE = [88, 5, 9, 30, 41, 2]
OUTPUT = [EOS, 87, 12, 60, 33]


@pytest.fixture(scope="module")
def wide(noise: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    widen(noise, folder, WIDE)
    return folder


def test_every_log_probability_is_the_parents(noise: Path, wide: Path) -> None:
    small, large = Parent.read(noise), Parent.read(wide)
    ids = token_ids(small, WIDE)
    parent, child = Model(small.tensors, small.shape), Model(large.tensors, large.shape)
    expected = log_softmax(parent.logits(parent.encode(SOURCE), OUTPUT))
    actual = log_softmax(child.logits(child.encode(ids[SOURCE].tolist()), ids[OUTPUT].tolist()))
    assert np.abs(actual[:, ids] - expected).max() < 1e-3


def test_a_dummy_row_never_has_a_chance(noise: Path, wide: Path) -> None:
    large = Parent.read(wide)
    child = Model(large.tensors, large.shape)
    ids = token_ids(Parent.read(noise), WIDE)
    logits = child.logits(child.encode(ids[SOURCE].tolist()), ids[OUTPUT].tolist())
    dummies = np.setdiff1d(np.arange(logits.shape[1]), ids)
    assert len(dummies) == WIDE.tokens - SHAPE.tokens
    np.testing.assert_allclose(logits[:, dummies], -1e4, rtol=1e-5)


def test_the_tensors_have_the_shape_that_was_asked_for(wide: Path) -> None:
    tensors = read_tensors(wide)
    assert tensors["model.shared.weight"].shape == (WIDE.tokens + WIDE.spare_rows, WIDE.width)
    for side in ("encoder", "decoder"):
        layers = {name.split(".")[3] for name in tensors if name.startswith(f"model.{side}.layers.")}
        assert layers == {str(layer) for layer in range(WIDE.layers)}
        assert tensors[f"model.{side}.layers.3.fc1.weight"].shape == (WIDE.ffn, WIDE.width)


def test_added_layers_change_nothing_because_their_last_projections_are_zero(wide: Path) -> None:
    tensors = read_tensors(wide)
    assert not tensors["model.decoder.layers.1.encoder_attn.out_proj.weight"].any()
    assert not tensors["model.decoder.layers.1.fc2.bias"].any()
    assert tensors["model.decoder.layers.2.fc2.weight"].any()


def test_text_becomes_the_same_pieces_and_codes_move_behind_the_dummies(noise: Path, wide: Path) -> None:
    small = Tokenizer.from_file(str(noise / "tokenizer.json"))
    large = Tokenizer.from_file(str(wide / "tokenizer.json"))
    text = "The bridge held: nadie durmió."
    assert large.encode(text).tokens == small.encode(text).tokens
    ids = token_ids(Parent.read(noise), WIDE)
    assert large.encode(text).ids == ids[small.encode(text).ids].tolist()
    assert large.get_vocab_size() == WIDE.tokens


def test_the_600m_shape_has_nllbs_ids(noise: Path) -> None:
    tree = wide_tokenizer(Parent.read(noise).tokenizer, NLLB_600M)
    vocabulary = tree["model"]["vocab"]
    assert vocabulary["eng_Latn"] == 256_047
    assert (vocabulary["ace_Arab"], vocabulary["zul_Latn"], vocabulary["<mask>"]) == (
        256_001,
        256_202,
        256_203,
    )
    assert sorted(vocabulary.values()) == list(range(256_204))


def test_heads_that_are_copied_inside_a_wide_head_keep_the_softmax_scale() -> None:
    plan = Plan(replace(SHAPE, width=128, heads=8, ffn=512, layers=3), NLLB_600M)
    assert plan.query_factor() == 0.5
    assert plan.head_features[:20].tolist() == [*range(16), 0, 1, 2, 3]
    assert plan.head_features[64] == 16


@pytest.mark.parametrize("broken", [{"width": 70}, {"layers": 3}, {"ffn": 100}, {"width": 32}, {"heads": 6}])
def test_a_shape_that_does_not_fit_is_refused(noise: Path, tmp_path: Path, broken: dict[str, int]) -> None:
    with pytest.raises(BadCheckpoint):
        widen(noise, tmp_path / "out", replace(WIDE, **broken))


@pytest.fixture
def references(noise: Path, tmp_path: Path) -> Path:
    """What the parent itself answers, in the form of the committed references."""
    parent = Parent.read(noise)
    output = Model(parent.tensors, parent.shape).greedy(SOURCE, 87, limit=6)
    record = {
        "id": "noise",
        "source_language": "eng_Latn",
        "input_ids": SOURCE,
        "output_ids": output,
        "text": "",
    }
    file = tmp_path / "greedy.jsonl"
    file.write_text(json.dumps(record) + "\n")
    return file


def test_a_preserved_model_passes_the_check(noise: Path, wide: Path, references: Path) -> None:
    check(noise, wide, references, 1)


def test_a_changed_weight_fails_the_check(noise: Path, wide: Path, references: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    copy_checkpoint(wide, broken)
    tensors = read_tensors(wide)
    name = "model.decoder.layers.2.fc2.weight"
    write_weights(broken, tensors | {name: tensors[name] * 1.5})
    with pytest.raises(NotPreserved):
        check(noise, broken, references, 1)


def test_the_cached_model_is_made_once_and_again_for_another_parent(noise: Path, tmp_path: Path) -> None:
    first = cached(noise, tmp_path, WIDE)
    made = (first / "model.safetensors").stat().st_mtime_ns
    assert cached(noise, tmp_path, WIDE) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == made
    other = tmp_path / "other"
    copy_checkpoint(noise, other)
    edit_json(other / "config.json", dropout=0.3)
    assert cached(other, tmp_path, WIDE) != first


def test_the_position_table_is_the_architectures() -> None:
    table = sinusoidal_positions(5, 4)
    assert table[1].tolist() == [0, 0, 0, 0]
    expected = [np.sin(3.0), np.sin(3.0 / 10000), np.cos(3.0), np.cos(3.0 / 10000)]
    np.testing.assert_allclose(table[3], expected, rtol=1e-6)
