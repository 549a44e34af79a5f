"""A simulated translator who types a reference with the suggestions of sil-machine's interactive translator.

After every key the first suggestion is looked at. If it begins rightly, its longest right beginning that ends where a
word of the reference ends is accepted, which is one key; else the next character is typed. So the keys without help are
the characters of the reference.

The translator is sil-machine's own. Three of its methods are replaced by faster ones with the same results (a test
compares them): costs of word pairs are kept and grown letter by letter, a typed word is compared with an arc without a
matrix, and of all hypotheses only the best, the one that makes the first suggestion, is looked for.
"""

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from queue import PriorityQueue
from typing import Any, cast

from machine.annotations import Range
from machine.tokenization import LatinWordDetokenizer, LatinWordTokenizer
from machine.translation import (
    InteractiveTranslationEngine,
    InteractiveTranslator,
    PhraseTranslationSuggester,
    TranslationResult,
    TranslationSources,
    WordAlignmentMatrix,
    WordGraph,
    WordGraphArc,
)
from machine.translation import error_correction_word_graph_processor as processor
from machine.translation.edit_operation import EditOperation
from machine.translation.error_correction_model import ErrorCorrectionModel
from machine.translation.segment_edit_distance import SegmentEditDistance

TOKENIZER = LatinWordTokenizer()
DETOKENIZER = LatinWordDetokenizer()
FLAGS = {
    "Primary": TranslationSources.SMT,
    "Secondary": TranslationSources.TRANSFER,
    "Human": TranslationSources.PREFIX,
}


def client_graph(graph: dict[str, Any]) -> WordGraph:
    """Serval's JSON as its clients read it."""
    return WordGraph(
        graph["sourceTokens"],
        [_client_arc(arc) for arc in graph["arcs"]],
        graph["finalStates"],
        graph["initialStateScore"],
    )


def _client_arc(arc: dict[str, Any]) -> WordGraphArc:
    start, end, words = arc["sourceSegmentStart"], arc["sourceSegmentEnd"], arc["targetTokens"]
    pairs = [(link["sourceIndex"], link["targetIndex"]) for link in arc["alignment"]]
    return WordGraphArc(
        arc["prevState"],
        arc["nextState"],
        arc["score"],
        words,
        WordAlignmentMatrix.from_word_pairs(end - start, len(words), pairs),
        Range.create(start, end),
        [_flags(sources) for sources in arc["sources"]],
        arc["confidences"],
    )


def _flags(sources: Sequence[str]) -> TranslationSources:
    found = TranslationSources.NONE
    for source in sources:
        found |= FLAGS[source]
    return found


class Distances(SegmentEditDistance):
    """sil-machine's costs of typing one word for another, each pair computed once."""

    def _get_substitution_cost(self, x: str, y: str, is_complete: bool) -> float:
        if x == "":
            return float(self.substitution_cost * 0.99 * len(y))
        costs = column(x, y, self.hit_cost, self.substitution_cost)
        return costs[-1] if is_complete else min(costs)

    def incr_compute_prefix(
        self,
        scores: list[float],
        prev_scores: list[float],
        x_word: str,
        y_incr: Sequence[str],
        is_last_item_complete: bool,
    ) -> list[EditOperation]:
        scores.extend([0.0] * (len(prev_scores) - len(scores)))
        last, deletion = len(prev_scores) - 1, self._get_deletion_cost(x_word)
        operations = []
        for place, typed in enumerate(y_incr, len(prev_scores) - len(y_incr)):
            complete = place != last or is_last_item_complete
            hit = self._is_hit(x_word, typed, complete)
            own = (self._get_hit_cost if hit else self._get_substitution_cost)(x_word, typed, complete)
            cost, operation = (
                prev_scores[place - 1] + own,
                EditOperation.HIT if hit else EditOperation.SUBSTITUTE,
            )
            for other, name in (
                (prev_scores[place] + deletion, EditOperation.DELETE),
                (scores[place - 1] + self._get_insertion_cost(typed), EditOperation.INSERT),
            ):
                if other < cost:
                    cost, operation = other, name
            scores[place] = cost
            operations.append(operation)
        return operations


@lru_cache(maxsize=1 << 20)
def column(word: str, typed: str, hit: float, other: float) -> tuple[float, ...]:
    """Edit cost of each beginning of `word` against `typed`, grown letter by letter as it is typed."""
    if not typed:
        return tuple(other * place for place in range(len(word) + 1))
    before, letter = column(word, typed[:-1], hit, other), typed[-1]
    costs = [before[0] + other]
    for place, own in enumerate(word):
        cost = before[place] + (hit if own == letter else other)
        costs.append(min(cost, costs[-1] + other, before[place + 1] + other))
    return tuple(costs)


class Model(ErrorCorrectionModel):
    """sil-machine's error model with these costs."""

    def __init__(self) -> None:
        super().__init__()
        self._segment_edit_distance = Distances()
        self.set_error_model_parameters(
            voc_size=128, hit_prob=0.8, ins_factor=1, subst_factor=1, del_factor=1
        )


class FirstOnly(processor.ErrorCorrectionWordGraphProcessor):
    """sil-machine's search for completions, of which only the best is kept."""

    def _get_hypotheses(self) -> "PriorityQueue[Any]":
        best: Any = None
        for index, arc in enumerate(self._word_graph.arcs):
            through = self._state_word_graph_scores[arc.prev_state] + arc.score
            through += self._rest_scores[arc.next_state]
            for place in range(-1, len(arc.target_tokens) - 1):
                esi = (
                    self._state_ecm_score_infos[arc.prev_state]
                    if place == -1
                    else self._arc_ecm_score_infos[index][place]
                )
                score = through - esi.scores[-1]
                if best is None or score > best[0]:
                    best = (score, arc.next_state, index, place)
        for state in self._word_graph.final_states:
            score = self._state_best_scores[state][-1] + self._rest_scores[state]
            if best is None or score > best[0]:
                best = (score, state)
        queue: PriorityQueue[Any] = PriorityQueue()
        queue.put(processor._Hypothesis(*best))
        return queue


def translator(graph: dict[str, Any], source: str, *, plain: bool = False) -> InteractiveTranslator:
    """The client's state of one segment. `plain` leaves sil-machine as it is."""
    model = ErrorCorrectionModel() if plain else Model()
    client = client_graph(graph)
    # Nothing is approved here, so there is no engine to teach.
    engine = cast(InteractiveTranslationEngine, None)
    made = InteractiveTranslator(model, engine, TOKENIZER, DETOKENIZER, source, client, True)
    if not plain:
        made._word_graph_processor = FirstOnly(model, DETOKENIZER, client)
        made._correct()
    return made


def first_result(client: InteractiveTranslator) -> list[TranslationResult]:
    """The best completion, if the graph has any; the library waits for ever where it has none."""
    return [next(client.get_current_results())] if client._word_graph_processor._word_graph.arcs else []


def suggestion(client: InteractiveTranslator) -> list[str]:
    """The words of the first suggestion; the first of them may complete the last one that was typed."""
    found = PhraseTranslationSuggester().get_suggestions(
        1, len(client.prefix_word_ranges), client.is_last_word_complete, first_result(client)
    )
    return list(found[0].target_words) if found else []


def accepted(client: InteractiveTranslator, reference: str, ends: frozenset[int]) -> int:
    """Where the reference is after the longest right beginning of the suggestion; where it is now if none is right."""
    typed = len(client.prefix)
    start = typed if client.is_last_word_complete else client.prefix_word_ranges[-1].start
    best, words = typed, suggestion(client)
    for count in range(1, len(words) + 1):
        text = DETOKENIZER.detokenize(words[:count])
        if not reference.startswith(text, start):
            break
        if start + len(text) in ends:
            best = max(best, start + len(text))
    return best


def keys(graph: dict[str, Any], source: str, reference: str, *, plain: bool = False) -> int:
    """How many keys it takes to write the reference."""
    client = translator(graph, source, plain=plain)
    ends = frozenset(word.end for word in TOKENIZER.tokenize_as_ranges(reference))
    pressed = place = 0
    while place < len(reference):
        place = max(place + 1, accepted(client, reference, ends))
        pressed += 1
        client.set_prefix(reference[:place])
    return pressed


def main() -> None:
    """For each line of standard input (`graph`, `source`, `reference`) print the number of keys."""
    for line in sys.stdin:
        task = json.loads(line)
        print(keys(task["graph"], task["source"], task["reference"]), flush=True)


if __name__ == "__main__":
    main()
