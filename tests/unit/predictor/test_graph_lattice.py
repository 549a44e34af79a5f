"""What a lattice of any paths holds: those paths, with their own scores, in few words, in order."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor.pipeline.answer import TokenSource, WordGraph
from nllb_predictor.pipeline.graph.lattice import Lattice, lattice
from nllb_predictor.pipeline.graph.paths import Path, PathWord, source_runs
from nllb_predictor.pipeline.graph.whole import MOST, word_graph
from nllb_predictor.pipeline.units import Copied, Prepared
from nllb_predictor.text.languages import LanguagePair
from nllb_predictor.text.spans import Span

ROOM = 10_000


def path(words: str | Sequence[str], *log_probs: float) -> Path:
    """A path of these words; each has its own log-probability, or -1."""
    own = [*log_probs, *[-1.0] * (len(words) - len(log_probs))]
    made = tuple(PathWord(word, 0.5, (TokenSource.PRIMARY,), (0,), Span(0, 1)) for word in words)
    return Path(made, tuple(accumulate(own[: len(words)])))


def ways(found: Lattice) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every way from the first state to the last, with its sum."""

    def on(state: int, words: tuple[str, ...], score: float) -> Iterator[tuple[tuple[str, ...], float]]:
        if state == found.end:
            yield words, score
        for edge in found.edges:
            if edge.prev == state:
                yield from on(edge.next, (*words, edge.word.text), score + edge.score)

    return on(0, (), 0.0)


PATHS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-9, 0)), min_size=1, max_size=7).map(
        lambda row: path([word for word, _ in row], *[value for _, value in row])
    ),
    min_size=1,
    max_size=12,
)


@given(PATHS)
def test_every_way_is_a_path_and_its_sum_is_that_paths_log_probability(paths: list[Path]) -> None:
    found = lattice(paths, ROOM)
    assert found is not None
    expected: dict[tuple[str, ...], float] = {}
    for each in paths:
        expected.setdefault(each.texts, each.reached[-1])
    through = list(ways(found))
    assert sorted(words for words, _ in through) == sorted(expected)
    for words, score in through:
        assert score == pytest.approx(expected[words], abs=1e-9)


@given(PATHS)
def test_states_are_in_order_and_no_word_is_likelier_than_certain(paths: list[Path]) -> None:
    found = lattice(paths, ROOM)
    assert found is not None
    assert all(edge.prev < edge.next <= found.end for edge in found.edges)
    assert [edge.prev for edge in found.edges] == sorted(edge.prev for edge in found.edges)
    assert all(edge.score <= 1e-9 for edge in found.edges)
    assert {edge.next for edge in found.edges} == set(range(1, found.end + 1))


@given(PATHS, st.integers(0, 40))
def test_it_holds_as_many_words_as_it_may_and_the_best_path_first(paths: list[Path], most: int) -> None:
    found = lattice(paths, most)
    if found is None:
        assert len(paths[0].words) > most
    else:
        assert len(found.edges) <= most
        assert paths[0].texts in [words for words, _ in ways(found)]


def test_beginnings_and_ends_that_paths_share_are_there_once() -> None:
    found = lattice([path("abcdef"), path("abxdef"), path("abydef")], ROOM)
    assert found is not None
    assert sorted(edge.word.text for edge in found.edges) == sorted("ab" + "cxy" + "def")


def test_a_state_with_several_ways_on_is_never_reached_in_two_ways() -> None:
    found = lattice([path("abcd"), path("axcd"), path("abce"), path("axce")], ROOM)
    assert found is not None
    for state in range(1, found.end):
        arriving = sum(edge.next == state for edge in found.edges)
        leaving = sum(edge.prev == state for edge in found.edges)
        assert arriving == 1 or leaving == 1


def test_a_path_that_is_the_beginning_of_another_ends_in_the_same_state() -> None:
    found = lattice([path("ab"), path("abc")], ROOM)
    assert found is not None
    assert sorted(words for words, _ in ways(found)) == [("a", "b"), ("a", "b", "c")]


def test_a_word_without_links_stands_for_what_the_word_before_it_does() -> None:
    assert source_runs([(), (2, 4), (), (0,)], 5) == [Span(2, 5), Span(2, 5), Span(2, 5), Span(0, 1)]
    assert source_runs([(), ()], 3) == [Span(0, 3), Span(0, 3)]


def copied(text: str) -> WordGraph:
    """The graph of a segment that is only copied."""
    pair = LanguagePair("eng_Latn", "spa_Latn")
    return word_graph(Prepared(text, pair, "", (Copied(Span(0, len(text)), text),)), ())


def test_copied_words_are_one_way_without_a_source() -> None:
    graph = copied("42 :-)")
    assert [arc.target_tokens for arc in graph.arcs] == [(word,) for word in graph.source_tokens]
    assert {arc.sources for arc in graph.arcs} == {((),)}
    assert graph.final_states == (len(graph.arcs),)


@pytest.mark.parametrize("text", ["", " \n", "1 " * (MOST + 1)])
def test_nothing_to_say_and_too_much_of_it_have_no_arcs_and_no_final_state(text: str) -> None:
    graph = copied(text)
    assert (graph.arcs, graph.final_states) == ((), ())
    assert len(graph.source_tokens) == len(text.split())
