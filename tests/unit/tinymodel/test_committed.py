"""The committed checkpoint and references: right shape, good enough, and in agreement with a second implementation.

The second implementation is the forward pass in numpy: it shares neither code nor library with `transformers`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from tinymodel.checkpoint import read_safetensors
from tinymodel.corpus import read_pairs
from tinymodel.flores import FLORES_CODES
from tinymodel.forward import EOS, Model, log_softmax
from tinymodel.normalise import punctuation_normaliser
from tinymodel.quality import chrf
from tinymodel.settings import Places, Recipe, Shape
from tinymodel.widen import Parent

PLACES = Places()
SEARCHES = ("greedy", "beam4-early", "beam4-machine", "beam2-early", "beam2-machine")


def records(search: str) -> list[dict[str, Any]]:
    lines = (PLACES.references / f"{search}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def parent() -> Parent:
    return Parent.read(PLACES.checkpoint)


def test_the_shape_is_nllbs_made_small(parent: Parent) -> None:
    assert parent.shape == Shape()
    vocabulary = parent.tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(Shape().tokens))
    assert all(code in vocabulary for code in FLORES_CODES)


def test_the_weights_are_float32_with_one_embedding_and_at_most_eight_megabytes() -> None:
    file = PLACES.checkpoint / "model.safetensors"
    assert file.stat().st_size <= 8_000_000
    tensors = read_safetensors(file)
    assert {stored.dtype for stored in tensors.values()} == {"F32"}
    assert [name for name in tensors if "embed" in name or "lm_head" in name or "shared" in name] == [
        "model.shared.weight"
    ]


@pytest.mark.parametrize("search", SEARCHES)
def test_at_least_two_hundred_verses_have_references_in_both_directions(search: str) -> None:
    ways = [(record["source_language"], record["target_language"]) for record in records(search)]
    assert (
        ways.count(("eng_Latn", "spa_Latn"))
        == ways.count(("spa_Latn", "eng_Latn"))
        == len(read_pairs(PLACES.held_out))
    )
    assert len(ways) >= 400


@pytest.mark.parametrize("way", ["eng_Latn", "spa_Latn"])
@pytest.mark.parametrize("search", ["greedy", "beam4-early"])
def test_the_references_reach_the_target_on_books_that_were_never_seen(search: str, way: str) -> None:
    wanted = [pair.spa if way == "eng_Latn" else pair.eng for pair in read_pairs(PLACES.held_out)]
    texts = [record["text"] for record in records(search) if record["source_language"] == way]
    assert chrf(texts, wanted) >= Recipe().min_chrf


def test_the_tokenizers_library_gives_the_ids_of_the_references(parent: Parent) -> None:
    tokenizer = Tokenizer.from_file(str(PLACES.checkpoint / "tokenizer.json"))
    for record in records("greedy"):
        assert record["normalised"] == punctuation_normaliser()(record["source"])
        pieces = tokenizer.encode(record["normalised"], add_special_tokens=False).ids
        code = parent.tokenizer["model"]["vocab"][record["source_language"]]
        assert record["input_ids"] == [code, *pieces, EOS]
        assert tokenizer.decode(record["output_ids"]) == record["text"]


@pytest.mark.parametrize("way", ["eng_Latn", "spa_Latn"])
def test_numpy_finds_the_same_words_and_scores_as_transformers(parent: Parent, way: str) -> None:
    model = Model(parent.tensors, parent.shape)
    for record in [record for record in records("greedy") if record["source_language"] == way][:12]:
        source, output = record["input_ids"], record["output_ids"]
        assert model.greedy(source, output[0]) == output
        logits = model.logits(model.encode(source), [EOS, *output[:-1]])
        chosen = log_softmax(logits)[np.arange(len(output)), output]
        assert chosen[1:].sum() / len(output) == pytest.approx(record["score"], abs=1e-4)


def test_the_recorded_quality_is_the_quality_of_the_recorded_texts() -> None:
    meta = json.loads((PLACES.references / "meta.json").read_text(encoding="utf-8"))
    wanted = [pair.spa for pair in read_pairs(PLACES.held_out)]
    for search in SEARCHES:
        texts = [record["text"] for record in records(search) if record["source_language"] == "eng_Latn"]
        assert meta["chrf"][search]["eng_Latn-spa_Latn"] == pytest.approx(chrf(texts, wanted), abs=0.01)


def test_no_file_of_the_test_data_is_large() -> None:
    sizes = {file: file.stat().st_size for file in Path(PLACES.data).rglob("*") if file.is_file()}
    assert max(sizes.values()) <= 8_000_000
