"""Results in words: what must hold of every one, and how pieces, words and phrases belong together."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.tokenization import LatinWordTokenizer

from nllb_predictor.engine.domain import Hypothesis, Segment
from nllb_predictor.pipeline.answer import Link, Phrase, TokenSource, TranslationResult
from nllb_predictor.pipeline.describe import Piece, copied_pieces, described, phrases, pieces_of
from nllb_predictor.pipeline.units import Carried, Copied, Unit, Written
from nllb_predictor.text.languages import LanguagePair
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span
from tests.support.cases import case

TEXT = st.lists(
    st.one_of(st.sampled_from("ab1 ,.'’\"«-_\u200b\n中👩\u200d"), st.characters(codec="utf-8")), max_size=20
).map("".join)


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, str, list[Piece], int]:
    """Any two texts, and pieces of the second that come from anywhere in the first."""
    source, target = draw(TEXT), draw(TEXT)
    cuts = sorted(draw(st.lists(st.integers(0, len(target)), max_size=12)))
    pieces = []
    for start, end in pairwise([0, *cuts, len(target)]):
        place = sorted(draw(st.tuples(*[st.integers(0, len(source))] * 2)))
        origin = draw(st.sampled_from([None, Span(place[0], place[1])]))
        log_prob = draw(st.floats(-1e6, 0.0))
        pieces.append(Piece(Span(start, end), log_prob, origin, draw(st.booleans())))
    return source, target, pieces, draw(st.integers(0, len(target)))


def assert_sound(result: TranslationResult, source: str) -> None:
    """The rules of Serval's contract, and of machine.py's class for it."""
    count = len(result.target_tokens)
    assert len(result.confidences) == len(result.sources) == count
    assert all(0.0 <= value <= 1.0 for value in result.confidences)
    links = list(result.alignment)
    assert links == sorted(set(links))
    assert all(0 <= link.source < len(result.source_tokens) and 0 <= link.target < count for link in links)
    found = 0
    for token in result.source_tokens:
        found = source.index(token, found) + len(token)
    assert_sound_phrases(result.phrases, len(result.source_tokens), count)
    machine = LatinWordTokenizer()
    assert list(result.source_tokens) == list(machine.tokenize(source))
    assert list(result.target_tokens) == list(machine.tokenize(result.translation))


def assert_sound_phrases(found: tuple[Phrase, ...], sources: int, targets: int) -> None:
    cuts = [0, *(phrase.target_cut for phrase in found)]
    assert all(before < after for before, after in pairwise(cuts))
    assert cuts[-1] == targets
    taken = [place for phrase in found for place in range(phrase.source_start, phrase.source_end)]
    assert len(taken) == len(set(taken))
    assert all(0 <= place < sources for place in taken)


@given(situations())
def test_every_result_is_sound(situation: tuple[str, str, list[Piece], int]) -> None:
    source, target, pieces, typed = situation
    assert_sound(described(source, target, pieces, typed), source)


LINKS = st.lists(st.lists(st.integers(0, 7), max_size=3, unique=True), max_size=8)


@given(LINKS)
def test_phrases_keep_linked_words_together_and_lose_no_source_word(links: list[list[int]]) -> None:
    found = phrases(8, links)
    assert_sound_phrases(found, 8, len(links))
    for begin, phrase in zip([0, *(each.target_cut for each in found)], found, strict=False):
        for link in (link for own in links[begin : phrase.target_cut] for link in own):
            assert phrase.source_start <= link < phrase.source_end
    if links:
        assert sum(each.source_end - each.source_start for each in found) == 8


@given(LINKS)
def test_no_phrase_could_be_cut_once_more(links: list[list[int]]) -> None:
    """Any cut inside of a phrase would part words whose sources lie between each other, or leave a side without any."""
    begin = 0
    for phrase in phrases(8, links):
        for cut in range(begin + 1, phrase.target_cut):
            left = [link for own in links[begin:cut] for link in own]
            right = [link for own in links[cut : phrase.target_cut] for link in own]
            apart = left and right and (max(left) < min(right) or max(right) < min(left))
            assert not apart
        begin = phrase.target_cut


@pytest.mark.parametrize(
    ("sources", "links", "expected"),
    [
        (3, [[0], [2], [1]], [(0, 1, 1), (2, 3, 2), (1, 2, 3)]),
        (4, [[0], [1, 3], [2]], [(0, 1, 1), (1, 4, 3)]),
        (3, [[], [1], []], [(0, 3, 3)]),
        (5, [[0], [], [3]], [(0, 3, 2), (3, 5, 3)]),
        (2, [[], []], [(0, 2, 2)]),
        (0, [[]], [(0, 0, 1)]),
        (2, [], []),
    ],
    ids=[
        "reordered",
        "interleaved",
        "unpaired around",
        "unpaired between",
        "no pair",
        "no source",
        "nothing",
    ],
)
def test_phrases_are_cut_where_the_alignment_allows(
    sources: int, links: list[list[int]], expected: list[tuple[int, int, int]]
) -> None:
    assert phrases(sources, links) == tuple(Phrase(*each) for each in expected)


SOURCE, TARGET = "La casa era grande.", "The house was big."
PAIR = LanguagePair("spa_Latn", "eng_Latn")


def unit(text: str = SOURCE) -> Unit:
    """Read as code, four tokens and end mark; the last token holds the full stop too."""
    spans = (None, Span(0, 2), Span(3, 7), Span(8, 11), Span(12, 19), None)
    tokens = ("spa_Latn", "▁La", "▁casa", "▁era", "▁grande.", "</s>")
    return Unit(Span(0, len(text)), text, Reading.of(text), PAIR, Segment(tokens, PAIR.target), spans)


def looks_at(column: int) -> tuple[float, ...]:
    """Attention mostly to code and end mark, as models have it, and to one token more than to the others."""
    return tuple(0.4 if at in (0, 5) else 0.15 if at == column else 0.01 for at in range(6))


def written(*rows: int, log_probs: tuple[float, ...] = (0.0, -0.1, -0.3, -0.1, -0.2, -0.4, -9.0)) -> Written:
    """`The`, `ho` + `use`, `was`, `big.`"""
    tokens = ("eng_Latn", "▁The", "▁ho", "use", "▁was", "▁big.")
    spans = (Span(0, 0), Span(0, 3), Span(4, 6), Span(6, 9), Span(10, 13), Span(14, 18))
    attention = (looks_at(1), *(looks_at(row) for row in rows), looks_at(5))
    return Written(TARGET, spans, Hypothesis(tokens, -0.2, True, log_probs, attention))


def _last_column(each: Unit, row: tuple[float, ...]) -> Span | None:
    """The naive way: the highest of all, the end mark among them."""
    return each.token_spans[max(range(len(row)), key=lambda at: row[at])]


@case("p15", breaks="nllb_predictor.pipeline.describe:attended", naive=_last_column)
def test_p15_words_belong_to_what_their_pieces_look_at_code_and_end_mark_aside() -> None:
    found = described(SOURCE, TARGET, pieces_of(unit(), written(1, 2, 2, 3, 4)))
    assert found.source_tokens == ("La", "casa", "era", "grande", ".")
    assert found.target_tokens == ("The", "house", "was", "big", ".")
    assert found.alignment == tuple(Link(place, place) for place in range(5))
    assert found.sources == ((TokenSource.PRIMARY,),) * 5


def test_confidence_is_the_geometric_mean_of_the_pieces() -> None:
    found = described(SOURCE, TARGET, pieces_of(unit(), written(1, 2, 2, 3, 4)))
    expected = [-0.1, (-0.3 - 0.1) / 2, -0.2, -0.4, -0.4]
    assert found.confidences == pytest.approx([math.exp(value) for value in expected])


def test_confidences_have_eight_digits_on_the_wire_only() -> None:
    found = described(SOURCE, TARGET, pieces_of(unit(), written(1, 2, 2, 3, 4)))
    assert found.as_json()["confidences"][0] == 0.90483742
    assert found.confidences[0] != 0.90483742


def test_pieces_of_one_word_may_belong_to_several() -> None:
    found = described(SOURCE, TARGET, pieces_of(unit(), written(1, 2, 3, 3, 4)))
    assert [link.source for link in found.alignment if link.target == 1] == [1, 2]
    assert found.phrases == (Phrase(0, 1, 1), Phrase(1, 3, 3), Phrase(3, 4, 4), Phrase(4, 5, 5))


def test_what_the_translation_carried_over_has_no_source_and_its_own_place() -> None:
    """`house` is a placeholder that was put back for the third source word, whatever its pieces look at."""
    text = replace(written(1, 4, 4, 3, 4), carried=(Carried(Span(8, 11), Span(4, 9)),))
    found = described(SOURCE, TARGET, pieces_of(unit(), text))
    assert found.sources[1] == ()
    assert [link.source for link in found.alignment if link.target == 1] == [2]


def test_what_was_put_in_without_a_piece_is_a_word_too() -> None:
    text = replace(written(1, 2, 2, 3, 4), text=TARGET + " 🎉", carried=(Carried(Span(3, 7), Span(19, 20)),))
    found = described(SOURCE, text.text, pieces_of(unit(), text))
    assert (found.target_tokens[5], found.sources[5], found.confidences[5]) == ("🎉", (), 1.0)
    assert Link(1, 5) in found.alignment


def test_copied_text_is_certain_and_from_itself() -> None:
    part = Copied(Span(3, 9), "12 (b)")
    pieces = [piece.moved(2) for piece in copied_pieces(part)]
    found = described("ab 12 (b)", "x 12 (b)", pieces)
    assert found.target_tokens == ("x", "12", "(", "b", ")")
    assert found.alignment == (Link(1, 1), Link(2, 2), Link(3, 3), Link(4, 4))
    assert found.sources == ((),) * 5
    assert found.confidences == (1.0,) * 5


def test_words_that_the_caller_began_are_human_too() -> None:
    pieces = pieces_of(unit(), written(1, 2, 2, 3, 4))
    found = described(SOURCE, TARGET, pieces, typed=len("The ho"))
    both = (TokenSource.PRIMARY, TokenSource.HUMAN)
    assert found.sources == (both, both, *((TokenSource.PRIMARY,),) * 3)
