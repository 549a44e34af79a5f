"""Words, confidences, alignment, phrases and n-best of the served tiny model."""

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import ctranslate2
import httpx
import pytest
from machine.tokenization import LatinWordTokenizer

from nllb_predictor.convert.run import Converted
from nllb_predictor.text.tokenise import WORD_START, Tokenizer
from tests.integration.predictor.calls import body
from tests.integration.predictor.conftest import references
from tests.support.predictor import ROOT, Predictor

PARAGRAPH = [
    "In the days when the judges judged, there was a famine in the land.",
    "A certain man went to live in the country of Moab.",
    "His name was Elimelech!",
    "He had two sons.",
]


def outputs(predictor: Predictor, texts: list[str], *names: str, **parameters: Any) -> dict[str, list[Any]]:
    """The wanted outputs of one call, by name; JSON ones are read."""
    answer = predictor.infer(body(texts, outputs=[{"name": name} for name in names], parameters=parameters))
    return read(answer)


def read(answer: httpx.Response) -> dict[str, list[Any]]:
    assert answer.status_code == 200, answer.text
    found = {each["name"]: each["data"] for each in answer.json()["outputs"]}
    for name in {"translation_result", "word_graph"} & set(found):
        found[name] = [json.loads(each) for each in found[name]]
    return found


def test_p12_a_paragraph_is_described_as_a_whole(any_pair_predictor: Predictor) -> None:
    paragraph = " ".join(PARAGRAPH)
    whole = outputs(any_pair_predictor, [paragraph], "translation", "translation_result")
    alone = outputs(any_pair_predictor, PARAGRAPH, "translation", "translation_result")
    result, parts = whole["translation_result"][0], alone["translation_result"]
    assert result["translation"] == whole["translation"][0] == " ".join(alone["translation"])
    for key in ("sourceTokens", "targetTokens", "sources"):
        assert result[key] == [each for part in parts for each in part[key]]
    confidences = [each for part in parts for each in part["confidences"]]
    assert result["confidences"] == pytest.approx(confidences, abs=1e-5)
    links, sources, targets = [], 0, 0
    for part in parts:
        links += [
            (each["sourceIndex"] + sources, each["targetIndex"] + targets) for each in part["alignment"]
        ]
        sources, targets = sources + len(part["sourceTokens"]), targets + len(part["targetTokens"])
        assert targets in [phrase["targetSegmentCut"] for phrase in result["phrases"]]
    assert [(each["sourceIndex"], each["targetIndex"]) for each in result["alignment"]] == links


def chunk_confidences(pieces: Sequence[str], log_probs: Sequence[float]) -> list[float]:
    """exp of the mean log-probability of what stands between two spaces."""
    chunks: list[list[float]] = []
    for piece, value in zip(pieces, log_probs, strict=True):
        if piece.startswith(WORD_START):
            chunks.append([])
        chunks[-1].append(value)
    return [math.exp(sum(chunk) / len(chunk)) for chunk in chunks]


def test_confidences_are_the_geometric_means_of_the_pieces(
    any_pair_predictor: Predictor, float32_model: Converted
) -> None:
    """By transformers' pieces, the library's own teacher forcing, machine.py's words, and pieces joined at their marks:
    another way than by places. Only chunks that are one word alone are compared."""
    verses = [each for each in references("beam4-early") if each.target_language == "spa_Latn"][:8]
    found = outputs(
        any_pair_predictor, [each.source for each in verses], "translation_result", split_sentences=False
    )
    translator = ctranslate2.Translator(float32_model.uri, intra_threads=1)
    tokenizer = Tokenizer.from_folder(Path(float32_model.uri))
    compared = 0
    for verse, result in zip(verses, found["translation_result"], strict=True):
        pieces = [str(token) for token in tokenizer.tokens(verse.output_ids[1:-1])]
        source = tokenizer.encode([verse.source], "eng_Latn")[0]
        scored = translator.score_batch([source], [["spa_Latn", *pieces]])[0].log_probs[1:-1]
        confidences = iter(result["confidences"])
        for chunk, expected in zip(verse.text.split(), chunk_confidences(pieces, scored), strict=True):
            own = [next(confidences) for _ in LatinWordTokenizer().tokenize(chunk)]
            if len(own) == 1:
                compared += 1
                assert own[0] == pytest.approx(expected, abs=1e-4), (verse.id, chunk)
    assert compared > 50


def test_names_belong_to_themselves(any_pair_predictor: Predictor) -> None:
    """Attention was learnt, so not every pair is right; names that read alike on both sides tell how many are."""
    verses = [each for each in references("beam4-early") if each.target_language == "spa_Latn"][:100]
    texts = [each.source for each in verses]
    found = outputs(any_pair_predictor, texts, "translation_result", timeout_ms=55_000, beam_size=1)
    right = asked = 0
    for result in found["translation_result"]:
        links = {(each["sourceIndex"], each["targetIndex"]) for each in result["alignment"]}
        for target, word in enumerate(result["targetTokens"]):
            places = [place for place, each in enumerate(result["sourceTokens"]) if each == word]
            if word[:1].isupper() and len(places) == 1 and len(word) > 3:
                asked += 1
                right += (places[0], target) in links
    assert asked >= 15
    assert right / asked >= 0.7


def test_hypotheses_are_distinct_ordered_and_begin_with_the_translation(
    any_pair_predictor: Predictor,
) -> None:
    texts = [PARAGRAPH[1], " ".join(PARAGRAPH), "", "12"]
    best = outputs(any_pair_predictor, texts, "translation")["translation"]
    found = outputs(any_pair_predictor, texts, "translation", "score", "hypothesis_count", num_hypotheses=4)
    assert found["hypothesis_count"] == [4, 4, 1, 1]
    for place, count in enumerate(found["hypothesis_count"]):
        row = found["translation"][place * 4 : place * 4 + 4]
        scores = found["score"][place * 4 : place * 4 + 4]
        assert row[0] == best[place]
        assert len(set(row[:count])) == count
        assert all(before >= after for before, after in pairwise(scores[:count]))
        assert (row[count:], scores[count:]) == ([""] * (4 - count), [0.0] * (4 - count))


def test_each_hypothesis_has_its_own_result(any_pair_predictor: Predictor) -> None:
    found = outputs(any_pair_predictor, PARAGRAPH[:2], "translation", "translation_result", num_hypotheses=3)
    assert [each["translation"] for each in found["translation_result"]] == found["translation"]
    for result in found["translation_result"]:
        assert len(result["targetTokens"]) == len(result["confidences"]) == len(result["sources"])
        assert result["phrases"][-1]["targetSegmentCut"] == len(result["targetTokens"])
        assert len(result["phrases"]) > 1


def test_what_else_is_asked_for_changes_no_translation(any_pair_predictor: Predictor) -> None:
    texts = [each.source for each in references("beam4-early")[:12]]
    plain = outputs(any_pair_predictor, texts, "translation", "score")
    more = outputs(any_pair_predictor, texts, "translation", "score", "translation_result")
    assert more["translation"] == plain["translation"]
    assert more["score"] == pytest.approx(plain["score"], abs=1e-5)


def documented() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Calls of the page's examples from words to begun translations, and the answers that stand below them."""
    page = (ROOT / "docs" / "predictor.md").read_text(encoding="utf-8")
    begin, last = page.index("## Words, confidences"), page.index("## Begun translations")
    section = page[begin : page.index("\n## ", last)]
    calls = re.findall(r"-d '(.*?)'\n```", section, re.DOTALL)
    answers = re.findall(r"```json\n(.*?)\n```", section, re.DOTALL)
    return [(json.loads(call), json.loads(answer)) for call, answer in zip(calls, answers, strict=True)]


def test_examples_of_the_page_answer_what_stands_there(any_pair_predictor: Predictor) -> None:
    examples = documented()
    assert len(examples) == 4
    for call, answer in examples:
        found = read(any_pair_predictor.infer(call))
        if "word_graph" in found:
            [graph], arc = found["word_graph"], answer["arcs"][0]
            assert graph["sourceTokens"] == answer["sourceTokens"]
            assert graph["arcs"][0].pop("score") == pytest.approx(arc.pop("score"), abs=1e-3)
            assert graph["arcs"][0].pop("confidences") == pytest.approx(arc.pop("confidences"), abs=1e-3)
            assert graph["arcs"][0] == arc
            continue
        if "translation_result" in found:
            shown = {key: value for key, value in answer.items() if "…" not in value}
            result = {key: found["translation_result"][0][key] for key in shown}
            for key in shown:
                assert result[key] == (
                    pytest.approx(shown[key], abs=1e-3) if key == "confidences" else shown[key]
                )
            continue
        for output in answer["outputs"]:
            expected = output["data"]
            assert found[output["name"]] == (
                pytest.approx(expected, abs=1e-3) if output["datatype"] == "FP32" else expected
            )
