"""Text that somebody made to keep the server busy: what is looked for in it is looked for once, not once for each of
the others. These tests have a budget of looks, or so much text that only a straight way through gets done with it."""

from collections.abc import Iterator, Sequence

import pytest

from nllb_predictor.engine.domain import Search
from nllb_predictor.errors import BadRequest, TextTooLong
from nllb_predictor.pipeline.prepare import Preparer
from nllb_predictor.pipeline.request import Ask, Lines, Options
from nllb_predictor.text import lines
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.protect import protected_spans
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span, Spans
from tests.unit.predictor.test_pipeline_service import CODES, Words

OPTIONS = Options(Search(1, 99))


class Counting(Spans):
    """Spans that count how many of them somebody was given."""

    looks = 0

    def __iter__(self) -> Iterator[Span]:
        for span in super().__iter__():
            Counting.looks += 1
            yield span


def naive_meets(spans: Sequence[Span], span: Span) -> tuple[Span, ...]:
    return tuple(each for each in spans if each.meets(span))


def test_spans_find_what_a_look_at_all_of_them_finds() -> None:
    spans = Spans([Span(0, 1), Span(2, 5), Span(5, 6), Span(9, 12), Span(20, 21)])
    for start in range(23):
        for end in range(start, 23):
            assert spans.met_by(Span(start, end)) == naive_meets(spans, Span(start, end))
        inside = any(span.start < start < span.end for span in spans)
        assert spans.around(start) == inside


@pytest.mark.parametrize("cut", [lines.lines, lines.paragraphs])
def test_each_line_break_looks_only_at_the_spans_beside_it(cut: object) -> None:
    text = "x @\n" * 2000
    kept = Counting([Span(at, at + 1) for at in range(2, len(text), 4)])
    Counting.looks = 0
    assert callable(cut)
    assert len(list(cut(text, kept))) >= 1
    assert Counting.looks <= 4 * len(text)


def test_a_term_that_stands_everywhere_is_found_everywhere() -> None:
    found = protected_spans("a " * 30_000, ["a"])
    assert len(found) == 30_000


def test_white_space_before_no_line_break_is_passed_once() -> None:
    text = "a" + " " * 60_000 + "a"
    assert lines.one_line(Reading.of(text)).text == text


@pytest.mark.parametrize("text", ["a \n b", "a\f b", "a \f b", "a\r\n\tb", " \n b", "a \v\x85 b"])
def test_a_wrap_is_still_a_wrap_whatever_white_space_is_around(text: str) -> None:
    assert lines.one_line(Reading.of(text)).text == " ".join(text.split()).strip()


def preparer() -> Preparer:
    return Preparer(Words(), Languages(CODES, "eng_Latn", "spa_Latn"), 1024)


def test_a_sentence_of_nothing_but_tags_is_refused_and_not_looked_through() -> None:
    text = "a " + "<b> " * 5000 + "c"
    with pytest.raises(TextTooLong, match="5000"):
        preparer().prepare([Ask(text)], OPTIONS)


def test_tags_in_lines_of_their_own_are_no_sentence() -> None:
    [prepared] = preparer().prepare([Ask("<b>\n" * 5000 + "c")], Options(Search(1, 99), lines=Lines.KEEP))
    assert [unit.raw for unit in prepared.units] == ["c"]


def test_more_sentences_than_a_call_may_hold_are_refused_before_the_rest_is_read() -> None:
    heard: list[int] = []

    def counted(count: int) -> None:
        heard.append(count)
        if count > 10:
            raise BadRequest("Too many.")

    with pytest.raises(BadRequest):
        preparer().prepare([Ask("word")] * 100_000, OPTIONS, counted)
    assert heard[-1] == 11
