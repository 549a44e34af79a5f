"""The trained tiny model: every stored number against CTranslate2's converter, every output against transformers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest

from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.manifest import Quantization
from nllb_predictor.text.tokenise import Tokenizer
from tests.support.conversion import convert_to

DATA = Path(__file__).parents[2] / "data"
REFERENCE: dict[str, Any] = json.loads((DATA / "ct2-converter.json").read_bytes())

OURS = {"decoder/alignment_layer", "decoder/alignment_heads"}
"""Set as machine.py reads alignments; the library's converter leaves its defaults for this family."""

POSITIONS = {"encoder/position_encodings/encodings", "decoder/position_encodings/encodings"}
"""Computed by numpy instead of torch, so equal only to float32's accuracy."""


@pytest.fixture(scope="module", params=sorted(REFERENCE["variables"]))
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("trained")
    convert_to(DATA / "tiny-nllb", folder / "model", Quantization(request.param))
    return request.param, folder / "model"


@pytest.fixture(scope="module")
def float32_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("float32")
    convert_to(DATA / "tiny-nllb", folder / "model")
    return folder / "model"


def test_every_variable_is_that_of_the_librarys_own_converter(converted: tuple[str, Path]) -> None:
    quantization, model = converted
    file = ModelFile(model / "model.bin")
    expected = REFERENCE["variables"][quantization]
    # An alias of a weight stands for its scale too, in both.
    names = {*file.variables, *file.aliases}
    assert names >= set(expected)
    for name in set(expected) - OURS - POSITIONS:
        stored = file.stored(name)
        seen = {
            "dtype": stored.dtype,
            "shape": list(stored.data.shape),
            "sha256": hashlib.sha256(stored.data.tobytes()).hexdigest(),
        }
        assert seen == expected[name], name


def test_nothing_is_stored_that_the_librarys_own_converter_does_not_store(
    converted: tuple[str, Path],
) -> None:
    quantization, model = converted
    file = ModelFile(model / "model.bin")
    assert {*file.variables, *file.aliases} == set(REFERENCE["variables"][quantization])


def test_positions_are_those_of_torch_to_float32s_accuracy(float32_model: Path) -> None:
    table = ModelFile(float32_model / "model.bin").stored("decoder/position_encodings/encodings").data
    for row, values in REFERENCE["positions"].items():
        np.testing.assert_allclose(table[int(row)], values, atol=1e-6 + 1e-7 * int(row))


def test_the_vocabulary_is_that_of_the_librarys_own_converter(float32_model: Path) -> None:
    names = json.loads((float32_model / "shared_vocabulary.json").read_bytes())
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    assert {"rows": len(names), "sha256": digest} == REFERENCE["vocabulary"]


def test_input_ids_output_ids_and_texts_are_those_of_transformers(float32_model: Path) -> None:
    """All held-out verses in both directions, greedy."""
    lines = (DATA / "references/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    references = [json.loads(line) for line in lines]
    tokenizer = Tokenizer.from_folder(float32_model)
    sources = [tokenizer.encode([each["source"]], each["source_language"])[0] for each in references]
    assert [tokenizer.ids(source) for source in sources] == [each["input_ids"] for each in references]
    results = ctranslate2.Translator(str(float32_model), compute_type="float32").translate_batch(
        sources,
        target_prefix=[[each["target_language"]] for each in references],
        beam_size=1,
        max_batch_size=32,
        return_end_token=True,
        return_scores=True,
    )
    for result, each in zip(results, references, strict=True):
        ids = tokenizer.ids(result.hypotheses[0])
        assert ids == each["output_ids"], each["id"]
        assert tokenizer.decode(result.hypotheses[0]) == each["text"], each["id"]
        assert result.scores[0] == pytest.approx(each["score"], abs=1e-3), each["id"]
