"""The answers of a segment's parts become one: texts, n-best, words of the whole segment."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor.engine.domain import Hypothesis, Segment
from nllb_predictor.pipeline.answer import Link
from nllb_predictor.pipeline.join import Wanted, combinations, joined
from nllb_predictor.pipeline.units import Copied, Found, Part, Prepared, Unit, Written
from nllb_predictor.text.languages import LanguagePair
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span
from tests.support.cases import case

PAIR = LanguagePair("eng_Latn", "spa_Latn")


def spaced(text: str) -> list[Span]:
    """Places of what stands between spaces."""
    ends = list(itertools.accumulate(len(word) + 1 for word in text.split(" ")))
    return [Span(end - len(word) - 1, end - 1) for end, word in zip(ends, text.split(" "), strict=True)]


def unit(text: str, at: int) -> Unit:
    """One token per word."""
    spans = (None, *(span.moved(at) for span in spaced(text)), None)
    segment = Segment(("eng_Latn", *text.split(" "), "</s>"), PAIR.target)
    return Unit(Span(at, at + len(text)), text, Reading.of(text, at), PAIR, segment, spans)


def hypothesis(text: str, score: float, width: int = 20) -> Written:
    """One token per word, each of which looks at the source token of its own number."""
    words = text.split(" ")
    rows = tuple(tuple(float(column == row) for column in range(width)) for row in range(len(words) + 2))
    scored = Hypothesis((PAIR.target, *words), score, True, (0.0, *[score] * (len(words) + 1)), rows)
    return Written(text, (Span(0, 0), *spaced(text)), scored)


def segment(
    *parts: tuple[str, Sequence[tuple[str, float]]], prefix: str = ""
) -> tuple[Prepared, list[Found]]:
    """Parts with hypotheses are sentences, those without are copied."""
    made: list[Part] = []
    found, at = [], 0
    for text, hypotheses in parts:
        if hypotheses:
            own = unit(text, at)
            made.append(own)
            rows = [hypothesis(*one, width=len(own.token_spans)) for one in hypotheses]
            found.append(Found(own, tuple(rows)))
        else:
            made.append(Copied(Span(at, at + len(text)), text))
        at += len(text)
    return Prepared("".join(text for text, _ in parts), PAIR, prefix, tuple(made)), found


TWO: tuple[tuple[str, list[tuple[str, float]]], ...] = (
    ("one two", [("uno dos", -0.5), ("un par", -0.6)]),
    (" ", []),
    ("three", [("tres", -1.0), ("trío", -1.5), ("tres", -1.6)]),
)


def test_separators_stay_between_the_sentences() -> None:
    answer = joined(*segment(*TWO))
    assert answer.text == "uno dos tres"
    assert answer.score == pytest.approx((-0.5 * 4 - 1.0 * 3) / 7)
    assert (answer.source_tokens, answer.target_tokens) == (7, 7)


def test_hypotheses_of_a_segment_are_the_best_combinations() -> None:
    answer = joined(*segment(*TWO), Wanted(9))
    assert [each.text for each in answer.alternatives] == [
        "uno dos tres",
        "un par tres",
        "uno dos trío",
        "un par trío",
    ]
    scores = [each.score for each in answer.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert joined(*segment(*TWO), Wanted(2)).alternatives == answer.alternatives[:2]


def test_the_first_is_what_a_call_for_one_gets_though_a_shorter_one_sums_higher() -> None:
    """-0.5 over five tokens is less in sum than -0.6 over four; the search compares means, and the best stays best."""
    found = segment(("a", [("x y z", -0.5), ("x y", -0.6)]), (" ", []), ("b", [("w", -0.1)]))
    assert joined(*found, Wanted(2)).text == joined(*found).text == "x y z w"


@given(st.lists(st.lists(st.floats(-3, 0), min_size=1, max_size=4), min_size=1, max_size=4))
def test_combinations_are_all_there_once_and_never_get_better(scores: list[list[float]]) -> None:
    rows = [[hypothesis("w", score) for score in sorted(row, reverse=True)] for row in scores]
    found = list(combinations(rows))
    assert sorted(found) == sorted(itertools.product(*(range(len(row)) for row in rows)))
    sums = [
        sum(row[index].hypothesis.score for row, index in zip(rows, choice, strict=True)) for choice in found
    ]
    assert all(before >= after - 1e-9 for before, after in itertools.pairwise(sums))


Rows = list[list[tuple[int, float]]]
"""For each sentence, words and score of each hypothesis."""

ROWS = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.floats(-3, 0)), min_size=1, max_size=4), min_size=1, max_size=4
)


def summed(rows: Rows, choice: Sequence[int]) -> float:
    """The log-probability of a combination: of each sentence its mean times its words, code and end mark."""
    return sum(row[index][1] * (row[index][0] + 2) for row, index in zip(rows, choice, strict=True))


def chosen(rows: Rows) -> list[tuple[int, ...]]:
    return list(combinations([[hypothesis("w " * (n - 1) + "w", score) for n, score in row] for row in rows]))


@given(ROWS)
def test_where_means_and_sums_agree_the_order_is_that_of_all_combinations_sorted_by_their_sums(
    rows: Rows,
) -> None:
    rows = [sorted(row, key=lambda one: -one[1] * (one[0] + 2)) for row in rows]
    every = itertools.product(*(range(len(row)) for row in rows))
    expected = sorted((summed(rows, choice) for choice in every), reverse=True)
    assert [summed(rows, choice) for choice in chosen(rows)] == pytest.approx(expected, abs=1e-9)


@given(ROWS)
def test_otherwise_no_hypothesis_counts_for_more_than_one_that_the_model_puts_before_it(rows: Rows) -> None:
    rows = [sorted(row, key=lambda one: -one[1]) for row in rows]
    sums = [[score * (words + 2) for words, score in row] for row in rows]
    every = itertools.product(*(range(len(row)) for row in rows))
    counted = {
        choice: sum(min(row[: index + 1]) for row, index in zip(sums, choice, strict=True))
        for choice in every
    }
    found = chosen(rows)
    assert found[0] == (0,) * len(rows)
    assert sorted(found) == sorted(counted)
    assert [counted[choice] for choice in found] == pytest.approx(
        sorted(counted.values(), reverse=True), abs=1e-9
    )


def test_the_score_of_a_combination_is_its_own_mean_over_all_tokens() -> None:
    found = segment(("a", [("x y z", -0.5), ("x y", -0.6)]), (" ", []), ("b", [("w", -0.1)]))
    first, second = joined(*found, Wanted(2)).alternatives
    assert first.score == pytest.approx((-0.5 * 5 - 0.1 * 3) / 8)
    assert second.score == pytest.approx((-0.6 * 4 - 0.1 * 3) / 7)


def test_a_repaired_hypothesis_stays_first_though_it_is_less_likely() -> None:
    answer = joined(*segment(("a", [("repaired", -2.0), ("a a a a", -0.1)])), Wanted(2))
    assert [each.text for each in answer.alternatives] == ["repaired", "a a a a"]


def _not_moved(self: Any, by: int) -> Any:
    """The naive way: places of each sentence are taken for places of the segment."""
    return self


@case("p12", breaks="nllb_predictor.pipeline.describe:Piece.moved", naive=_not_moved)
def test_p12_words_confidences_alignment_and_phrases_are_those_of_the_whole_segment() -> None:
    prepared, found = segment(*TWO, (" ", []), ("12!", []))
    result = joined(prepared, found, Wanted(1, result=True)).alternatives[0].result
    assert result is not None
    assert result.source_tokens == ("one", "two", "three", "12", "!")
    assert result.target_tokens == ("uno", "dos", "tres", "12", "!")
    assert result.alignment == tuple(Link(place, place) for place in range(5))
    assert [phrase.target_cut for phrase in result.phrases] == [1, 2, 3, 4, 5]
    assert [len(sources) for sources in result.sources] == [1, 1, 1, 0, 0]
    assert result.confidences[2] < result.confidences[0] < result.confidences[3] == 1.0


@pytest.mark.parametrize(
    ("text", "prefix", "expected"),
    [("12", "12", "12"), ("12", "1", "12"), ("12", "uno", "uno"), ("", "x", "x"), (" ", "x y", "x y")],
)
def test_copied_text_begins_with_the_prefix_or_gives_way_to_it(text: str, prefix: str, expected: str) -> None:
    answer = joined(*segment((text, []), prefix=prefix), Wanted(2, result=True))
    assert [each.text for each in answer.alternatives] == [expected]
    assert answer.alternatives[0].result is not None
    assert answer.alternatives[0].result.translation == expected


def test_nothing_stands_before_the_callers_beginning() -> None:
    found = segment(("\n ", []), ("one", [("uno", -1.0)]), (" ", []), prefix="u")
    assert joined(*found, Wanted(1, result=True)).text == "uno "
