"""Word graphs of the trained tiny model, and Serval's client that reads them."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.typist import DETOKENIZER, keys, suggestion, translator
from nllb_predictor.convert.run import Converted
from nllb_predictor.engine.domain import Scoring, Search, Segment
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.answer import Arc, WordGraph
from nllb_predictor.pipeline.graph.whole import MOST
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest, Wants
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer
from nllb_predictor.text.words import tokenize
from tests.integration.predictor.conftest import DATA

ODD = (
    "",
    " \u3000\n",
    "Amen",
    "😀",
    "Nice work 🎉 team 👩‍👩‍👧",
    "42:7",
    "-- ... --",
    "See https://example.org/a?b=c and {name}.",
    "He went away. She came.\nThey saw it.",
    "“Come,” he said, ‘now.’",
    "\u200bἐν ἀρχῇ ἦν ὁ λόγος",
    "word " * 300,
)


class Model:
    """The pipeline in this process, and what teacher forcing says of a text."""

    def __init__(self, folder: str) -> None:
        settings = ServeSettings(model_uri=folder, intra_threads=1)
        self.tokenizer = Tokenizer.from_folder(DATA / "tiny-nllb")
        self.engine = TranslationEngine.load(Path(folder), settings)
        self.scheduler = Scheduler(self.engine, Limits(queue=512, batch=64))
        languages = Languages(frozenset(self.tokenizer.language_codes), any_pair=True)
        self.service = TranslationService(self.scheduler, self.tokenizer, languages, 1024)

    def graph(self, text: str, split: bool = True) -> WordGraph:
        options = Options(Search(4, 256), split_sentences=split)
        ask = Ask(text, "eng_Latn", "spa_Latn")
        request = TranslateRequest((ask,), options, Wants(graph=True), timeout=200)
        graph = asyncio.run(self.service.translate(request))[0].graph
        assert graph is not None
        return graph

    def log_probability(self, source: str, target: str) -> float:
        """Of a whole text by `score_batch`, end mark included."""
        tokens = tuple(self.tokenizer.encode([source], "eng_Latn")[0])
        pieces = tuple(self.tokenizer.pieces([target])[0])
        return sum(self.engine.run([Segment(tokens, "spa_Latn", pieces)], Scoring())[0][0].log_probs)


@pytest.fixture(scope="module")
def model(float32_model: Converted) -> Iterator[Model]:
    made = Model(float32_model.uri)
    yield made
    made.service.close()
    made.scheduler.close()


def verses(count: int) -> list[tuple[str, str]]:
    """Held-out verses and their published translations."""
    lines = (DATA / "heldout.jsonl").read_text(encoding="utf-8").splitlines()[:: 203 // count]
    return [(each["eng"], each["spa"]) for each in map(json.loads, lines[:count])]


def assert_consumable(text: str, graph: WordGraph) -> None:
    """What consumers need of a graph, as they would find it missing."""
    into: set[int] = set()
    left: set[int] = set()
    for arc in graph.arcs:
        assert arc.next_state not in left, "an arc leads into a state that was left before"
        assert arc.prev_state == 0 or arc.prev_state in into
        into.add(arc.next_state)
        left.add(arc.prev_state)
        assert_arc(arc, len(graph.source_tokens))
    assert set(graph.final_states) <= into
    assert bool(graph.final_states) == bool(graph.arcs)
    assert sum(len(arc.target_tokens) for arc in graph.arcs) + len(graph.final_states) <= MOST
    assert max(into, default=0) <= MOST
    assert list(graph.source_tokens) == [word.of(text) for word in tokenize(text)]
    assert graph.initial_state_score == 0.0


def assert_arc(arc: Arc, source_count: int) -> None:
    assert arc.target_tokens
    for word in arc.target_tokens:
        assert [span.of(word) for span in tokenize(word)] == [word], "no word as clients cut them"
    assert len(arc.confidences) == len(arc.sources) == len(arc.target_tokens)
    assert all(0 <= confidence <= 1 for confidence in arc.confidences)
    assert -1e4 < arc.score <= 1e-9
    assert 0 <= arc.source_start < arc.source_end <= source_count
    for link in arc.alignment:
        assert 0 <= link.source < arc.source_end - arc.source_start
        assert 0 <= link.target < len(arc.target_tokens)


@pytest.mark.parametrize("text", ODD)
def test_any_text_has_a_graph_that_clients_can_type_with(model: Model, text: str) -> None:
    graph = model.graph(text)
    assert_consumable(text, graph)
    client = translator(graph.as_json(), text, plain=len(graph.arcs) < 300)
    for prefix in ("", "x", "Y él ", "zzz zzz zzz zzz ", "El", "😀 ", "1", ".", "Y"):
        client.set_prefix(prefix)
        suggestion(client)


def test_words_of_the_model_are_primary_and_copied_ones_have_no_source(model: Model) -> None:
    graph = model.graph("He went away. 42:7")
    sources = {arc.sources for arc in graph.arcs if arc.target_tokens[0].isalpha()}
    assert {tuple(each.value for each in row) for (row,) in sources} == {("Primary",)}
    copied = model.graph("42:7")
    assert [arc.sources for arc in copied.arcs] == [((),)] * len(copied.arcs)


def test_the_sum_along_any_path_is_what_teacher_forcing_says_of_its_text(model: Model) -> None:
    chosen = random.Random(5)
    for source, _ in verses(6):
        # Whole, since teacher forcing reads the text whole: sentences are scored one by one.
        graph = model.graph(source, split=False)
        assert len(graph.arcs) > 40
        for _ in range(25):
            words, total = a_way(graph, chosen)
            text = DETOKENIZER.detokenize(words)
            assert total == pytest.approx(model.log_probability(source, text), abs=1e-3), text


def test_a_greedy_search_tells_of_each_token_what_teacher_forcing_says(model: Model) -> None:
    lines = [source for source, _ in verses(5)]
    rows = model.tokenizer.encode(lines, "eng_Latn")
    begun = [tuple(model.tokenizer.pieces(["Y el hombre"])[0][:count]) for count in (0, 3, 1, 0, 2)]
    asked = [Segment(tuple(row), "spa_Latn", prefix) for row, prefix in zip(rows, begun, strict=True)]
    for segment, (found,) in zip(asked, model.engine.run(asked, Search(1, 200, log_probs=True)), strict=True):
        whole = Segment(segment.tokens, "spa_Latn", found.tokens[1:])
        forced = model.engine.run([whole], Scoring())[0][0].log_probs
        given = len(segment.prefix) + 1
        assert found.complete
        assert found.log_probs[:given] == (0.0,) * given
        assert found.log_probs[given:] == pytest.approx(forced[given:], abs=1e-3)


def a_way(graph: WordGraph, chosen: random.Random) -> tuple[list[str], float]:
    state, words, total = 0, list[str](), graph.initial_state_score
    while state not in graph.final_states:
        arc = chosen.choice([arc for arc in graph.arcs if arc.prev_state == state])
        words += arc.target_tokens
        total += arc.score
        state = arc.next_state
    return words, total


def test_the_best_path_is_the_translation_or_better_and_goes_on_after_any_right_beginning(
    model: Model,
) -> None:
    graph = model.graph("He went away.").as_json()
    first = suggestion(translator(graph, "He went away."))
    assert first
    client = translator(graph, "He went away.")
    client.set_prefix(first[0][:1])
    assert suggestion(client)[0].startswith(first[0][:1])


def test_sentences_follow_each_other_and_speak_of_the_whole_segment(model: Model) -> None:
    text = "He went away. She saw the city."
    graph = model.graph(text)
    assert_consumable(text, graph)
    joints = [state for state in range(1, graph.final_states[0]) if passed_by_all(graph, state)]
    assert joints, "no state that every path passes"
    behind = [arc for arc in graph.arcs if arc.prev_state >= joints[-1]]
    assert min(arc.source_start for arc in behind) >= 4


def passed_by_all(graph: WordGraph, state: int) -> bool:
    return not any(arc.prev_state < state < arc.next_state for arc in graph.arcs) and any(
        arc.prev_state < state for arc in graph.arcs
    )


def test_a_graph_offers_more_than_its_translation(model: Model) -> None:
    source, reference = verses(4)[1]
    graph = model.graph(source).as_json()
    assert len({arc["targetTokens"][0] for arc in graph["arcs"] if arc["prevState"] == 0}) > 1
    assert keys(graph, source, reference) < len(reference)


def test_the_quick_typist_presses_the_keys_that_the_plain_one_presses(model: Model) -> None:
    for source, reference in verses(3):
        graph = model.graph(source).as_json()
        assert keys(graph, source, reference[:60]) == keys(graph, source, reference[:60], plain=True)
