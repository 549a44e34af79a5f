"""Readings: what is changed for the model keeps its place in what was sent."""

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.text.normalise import normalise_punctuation, normalised
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span

PROSE = st.text(
    st.one_of(st.sampled_from("a b.,!?'\"“”‘’«»…–—()1 \u00a0%;:/&"), st.characters(codec="utf-8")),
    max_size=40,
)


def test_a_replacement_stands_for_what_it_replaces() -> None:
    reading = Reading.of("one…two", 10).replaced(3, 4, "...")
    assert reading.text == "one...two"
    assert [reading.place(*span) for span in ((0, 3), (3, 6), (4, 5), (6, 9))] == [
        Span(10, 13),
        Span(13, 14),
        Span(13, 14),
        Span(14, 17),
    ]


def test_what_leaves_has_no_place_and_its_neighbours_keep_theirs() -> None:
    reading = Reading.of("a <b> c").replaced(2, 6, "")
    assert (reading.text, reading.place(0, 1), reading.place(2, 3)) == ("a c", Span(0, 1), Span(6, 7))


@settings(deadline=None)
@given(PROSE)
def test_punctuation_is_normalised_as_without_places(text: str) -> None:
    reading = normalised(Reading.of(text))
    assert reading.text == normalise_punctuation(text)
    assert len(reading.places) == len(reading.text)


@settings(deadline=None)
@given(PROSE)
def test_places_are_in_order_and_inside_the_text(text: str) -> None:
    places = normalised(Reading.of(text)).places
    assert all(0 <= start <= end <= len(text) for start, end in places)
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(places))


@settings(deadline=None)
@given(PROSE, st.integers(0, 5))
def test_substitution_is_that_of_the_library(text: str, at: int) -> None:
    pattern = re.compile(r"(\w)([.,])")
    assert Reading.of(text, at).substituted(pattern, r"\2\1").text == pattern.sub(r"\2\1", text)
