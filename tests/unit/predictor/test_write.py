"""Hypotheses as text: the caller's beginning to the letter, protected spans back, and each token where it stands."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor.engine.domain import Hypothesis, Segment
from nllb_predictor.pipeline.units import Protected, Unit, Written
from nllb_predictor.pipeline.write import Draft, Edit, begun, edited, write, written
from nllb_predictor.text.languages import LanguagePair
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span
from nllb_predictor.text.tokenise import Decoded
from nllb_predictor.text.words import tokenize

PAIR = LanguagePair("eng_Latn", "spa_Latn")


class Spaces:
    """Joins tokens with spaces; the language token shows nothing."""

    def decode_with_spans(self, outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        return [self._decoded(tokens[1:]) for tokens in outputs]

    def _decoded(self, tokens: Sequence[str]) -> Decoded:
        spans, at = [Span(0, 0)], 0
        for token in tokens:
            spans.append(Span(at, at + len(token)))
            at += len(token) + 1
        return Decoded(" ".join(tokens), tuple(spans))


def unit(raw: str, *protected: Protected) -> Unit:
    segment = Segment(("eng_Latn", *raw.split(), "</s>"), PAIR.target)
    spans = (None, *tokenize(raw), None)
    return Unit(Span(0, len(raw)), raw, Reading.of(raw), PAIR, segment, spans, protected)


def hypothesis(text: str) -> Hypothesis:
    return Hypothesis((PAIR.target, *text.split(" ")), -1.0, True)


def shown(text: Written) -> list[str]:
    return [span.of(text.text) for span in text.token_spans[1:]]


def test_a_stand_in_becomes_the_span_that_it_stands_for() -> None:
    protected = Protected(Span(4, 11), "{count}", stand_in="7351")
    found = write(Spaces(), unit("see {count} now", protected), hypothesis("ve 7351 ya"))
    assert found.text == "ve {count} ya"
    assert shown(found) == ["ve", "{count}", "ya"]
    assert [(one.source, one.target) for one in found.carried] == [(Span(4, 11), Span(3, 10))]


def test_what_the_model_read_itself_is_known_as_carried() -> None:
    found = write(Spaces(), unit("see Acme now", Protected(Span(4, 8), "Acme")), hypothesis("ve Acme ya"))
    assert [(one.source, one.target) for one in found.carried] == [(Span(4, 8), Span(3, 7))]


def test_a_span_that_is_not_there_is_not_made_up() -> None:
    found = write(Spaces(), unit("see Acme now", Protected(Span(4, 8), "Acme")), hypothesis("ve ya"))
    assert (found.text, found.carried) == ("ve ya", ())


@pytest.mark.parametrize(
    ("prefix", "model", "covered", "text", "tokens"),
    [
        ("“Di", '"Dijo que', 3, "“Dijo que", ["“Dijo", "que"]),
        ("No  es", "No es eso", 5, "No  es eso", ["No", "es", "eso"]),
        ("No ", "No es", 3, "No es", ["No", "es"]),
        ("  No\u00a0", "No es", 3, "  No\u00a0es", ["No", "es"]),
        ("a…b", "a...b c", 5, "a…b c", ["a…b", "c"]),
    ],
)
def test_the_callers_spelling_takes_the_place_of_the_models(
    prefix: str, model: str, covered: int, text: str, tokens: list[str]
) -> None:
    found = written(Spaces(), [Draft(unit("x"), hypothesis(model), prefix, covered)])[0]
    assert found.text == text
    assert shown(found) == tokens


@given(
    st.text(alphabet="ab “”…’.,\u00a0中é", min_size=1, max_size=12),
    st.text(alphabet="xy z", max_size=6),
    st.data(),
)
def test_a_begun_text_begins_so_and_its_places_are_in_order(
    prefix: str, rest: str, data: st.DataObject
) -> None:
    spelt = data.draw(st.sampled_from([normalise_punctuation(prefix), "other letters"]))
    text = spelt + rest
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = tuple(Span(start, end) for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    found = begun(Written(text, spans, hypothesis("x")), prefix, len(spelt))
    assert found.text == prefix + rest
    for before, after in zip(found.token_spans, found.token_spans[1:], strict=False):
        assert before.start <= after.start
    assert all(0 <= span.start <= span.end <= len(found.text) for span in found.token_spans)


@given(st.text(alphabet="abc ", max_size=20), st.data())
def test_edits_move_what_stands_behind_them_and_nothing_else(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6, unique=True)))
    edits = [
        Edit(Span(start, end), data.draw(st.text(alphabet="XY", max_size=4)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    spans = tuple(Span(place, place + 1) for place in range(len(text)))
    found = edited(Written(text, spans, hypothesis("x")), edits)
    kept = [
        place
        for place in range(len(text))
        if not any(each.span.start <= place < each.span.end for each in edits)
    ]
    assert [found.token_spans[place].of(found.text) for place in kept] == [text[place] for place in kept]
    assert len(found.text) == len(kept) + sum(len(each.text) for each in edits)
