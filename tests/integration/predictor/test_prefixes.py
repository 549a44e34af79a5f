"""Translations that the caller began, by the served tiny model: at every cut, in any script, with beams and n-best."""

import json
from typing import Any

import pytest
import sacrebleu

from tests.integration.predictor.conftest import Reference, references
from tests.integration.predictor.test_results import outputs, read
from tests.support.predictor import Predictor

SHORT = 55
"""Characters of the known translations that are cut everywhere."""
PATIENCE_MS = 55_000
"""Long calls on a busy test machine; their caller leaves after a minute."""
MIN_EQUAL = 0.5
"""Share of all cuts from which the known translation is found again. Not all are: a search that is told the beginning
looks at other endings, often likelier ones."""
SCORE_TOLERANCE = 0.05
MEAN_LOSS = 0.01
"""Of the mean log-probability per token, over all cuts; a narrower search loses a little here and wins there."""


def known(code: str, count: int) -> list[Reference]:
    """Some short translations by transformers, beam 4."""
    found = [each for each in references("beam4-early") if each.target_language == code]
    return [each for each in found if len(each.text) <= SHORT][:count]


def call(texts: list[str], prefixes: list[str], *names: str, **parameters: Any) -> dict[str, Any]:
    inputs = [
        {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts},
        {"name": "target_prefix", "datatype": "BYTES", "shape": [len(prefixes)], "data": prefixes},
    ]
    return {"inputs": inputs, "outputs": [{"name": name} for name in names], "parameters": parameters}


def continued(
    predictor: Predictor, text: str, target: str, prefixes: list[str], **parameters: Any
) -> dict[str, list[Any]]:
    """One text begun in many ways."""
    request = call([text] * len(prefixes), prefixes, "translation", "score", **parameters)
    source = "eng_Latn" if target == "spa_Latn" else "spa_Latn"
    for name, code in (("source_language", source), ("target_language", target)):
        request["inputs"].append({"name": name, "datatype": "BYTES", "shape": [1], "data": [code]})
    return read(predictor.infer(request))


def test_p50_every_cut_of_a_known_translation_is_continued_to_the_letter(
    any_pair_predictor: Predictor,
) -> None:
    equal = cuts = 0
    worse: list[tuple[str, str, float]] = []
    found: list[str] = []
    wanted: list[str] = []
    for verse in [*known("spa_Latn", 2), *known("eng_Latn", 1)]:
        prefixes = [verse.text[:cut] for cut in range(1, len(verse.text) + 1)]
        answers = continued(
            any_pair_predictor, verse.source, verse.target_language, prefixes, timeout_ms=PATIENCE_MS
        )
        for prefix, text, score in zip(prefixes, answers["translation"], answers["score"], strict=True):
            assert text.startswith(prefix)
            if score < verse.score - SCORE_TOLERANCE:
                worse.append((prefix, text, score - verse.score))
            equal, cuts = equal + (text == verse.text), cuts + 1
        found += answers["translation"]
        wanted += [verse.text] * len(prefixes)
    assert worse == []
    assert equal / cuts >= MIN_EQUAL
    assert sacrebleu.corpus_chrf(found, [wanted]).score >= 80


def test_p50_a_cut_inside_of_a_word_is_as_good_as_one_before_it(any_pair_predictor: Predictor) -> None:
    """A forced spelling that the model would not choose costs likelihood; begun anew, the word costs none. Where the
    translation from before the word begins with the cut one too, both are answers to the same question."""
    verse = known("spa_Latn", 3)[2]
    places = [cut for cut in range(2, len(verse.text)) if verse.text[cut - 1].isalpha()]
    starts = dict.fromkeys(verse.text[:cut].rsplit(" ", 1)[0] for cut in places)
    cuts = [verse.text[:cut] for cut in places]
    inside = continued(any_pair_predictor, verse.source, "spa_Latn", cuts, timeout_ms=PATIENCE_MS)
    uncut = continued(any_pair_predictor, verse.source, "spa_Latn", list(starts), timeout_ms=PATIENCE_MS)
    before = dict(zip(starts, zip(uncut["translation"], uncut["score"], strict=True), strict=True))
    losses = []
    for cut, score in zip(places, inside["score"], strict=True):
        text, best = before[verse.text[:cut].rsplit(" ", 1)[0]]
        if text.startswith(verse.text[:cut]):
            losses.append(best - score)
    assert len(losses) > len(places) / 2
    assert sum(losses) / len(losses) <= MEAN_LOSS


@pytest.mark.parametrize(
    "prefix",
    [
        "“En el princ",
        "  ¿Y… ",
        "Él dijo:\u00a0«",
        "Θε",
        "В нача",
        "في الب",
        "起初，神創",
        "เมื่อแร",
        "आदि में",
        "👩\u200d👧 y",
        "e\u0301l di",
        "ﬁn",
        "</s> spa_Latn",
        "1234 ",
        "\n",
        "En\tel",
        "abc)d(e ' f",
    ],
)
def test_p50_a_prefix_in_any_script_is_kept_to_the_letter(any_pair_predictor: Predictor, prefix: str) -> None:
    request = call(["In the beginning."], [prefix], "translation", "translation_result", num_hypotheses=3)
    found = read(any_pair_predictor.infer(request))
    assert all(text.startswith(prefix) for text in found["translation"])
    assert len(set(found["translation"])) == len(found["translation"])
    for text, result in zip(found["translation"], found["translation_result"], strict=True):
        assert result["translation"] == text
        assert all("Human" in sources for sources in result["sources"][: max(0, len(prefix.split()) - 1)])


def test_p47_limits_count_new_tokens_and_the_prefix_is_whole(any_pair_predictor: Predictor) -> None:
    prefix = "palabra y " * 60
    parameters = {"num_hypotheses": 5, "timeout_ms": PATIENCE_MS}
    request = call(["He went to the land of Moab."], [prefix], "translation", **parameters)
    found = read(any_pair_predictor.infer(request))
    assert 1 <= len(found["translation"]) <= 5
    assert all(text.startswith(prefix) for text in found["translation"])


def test_p47_a_prefix_beyond_the_positions_is_refused_with_the_numbers(any_pair_predictor: Predictor) -> None:
    answer = any_pair_predictor.infer(call(["He went."], ["palabra y " * 1000], "translation"))
    assert answer.status_code == 400
    assert answer.json()["reason"] == "TextTooLong"
    assert answer.json()["field"] == "target_prefix"
    assert "1024" in answer.json()["error"]


def test_p49_one_prefix_is_for_all_texts_and_another_count_is_refused(any_pair_predictor: Predictor) -> None:
    texts = ["He went.", "They came.", "She saw."]
    found = read(any_pair_predictor.infer(call(texts, ["Y "], "translation")))
    assert [text[:2] for text in found["translation"]] == ["Y "] * 3
    each = read(any_pair_predictor.infer(call(texts, ["Y ", "", "El"], "translation")))
    plain = outputs(any_pair_predictor, texts[1:2], "translation")
    assert each["translation"][1] == plain["translation"][0]
    assert each["translation"][0] == found["translation"][0]
    refused = any_pair_predictor.infer(call(texts, ["Y ", "El"], "translation"))
    assert refused.status_code == 400
    assert json.loads(refused.text)["error"].count("2 values for 3 texts") == 1
