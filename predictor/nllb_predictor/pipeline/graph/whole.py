"""The graphs of a segment's sentences, one behind the other: the end of one is the beginning of the next."""

from collections.abc import Sequence

from nllb_predictor.pipeline.answer import Arc, Link, WordGraph
from nllb_predictor.pipeline.graph.explore import Spelt
from nllb_predictor.pipeline.graph.lattice import Edge, Lattice, lattice
from nllb_predictor.pipeline.graph.paths import Path, copied_path, path_of
from nllb_predictor.pipeline.units import Copied, Prepared, Unit
from nllb_predictor.text.spans import Span
from nllb_predictor.text.words import tokenize

MOST = 900
"""Target tokens and final states of a graph. machine.py waits for ever beyond 1000."""

Explored = Sequence[Sequence[Spelt]]
"""For each sentence every hypothesis that may go into the graph, the most wanted first."""


def word_graph(prepared: Prepared, explored: Explored) -> WordGraph:
    """The graph of a segment. It has no arcs where there is nothing to say, and where even the best translation alone
    is longer than consumers can take: no suggestion is better than one that ends in the middle."""
    source_words = tokenize(prepared.text)
    sentences = iter(explored)
    rows = [
        [copied_path(source_words, part)]
        if isinstance(part, Copied)
        else _paths(source_words, part, next(sentences))
        for part in prepared.parts
    ]
    rows = [paths for paths in rows if paths and paths[0].words]
    lattices = _lattices(rows, MOST - 1)
    arcs: list[Arc] = []
    start = 0
    for each in lattices:
        arcs += [_arc(edge, start) for edge in each.edges]
        start += each.end
    return WordGraph(
        tuple(word.of(prepared.text) for word in source_words), tuple(arcs), (start,) if arcs else ()
    )


def _paths(source_words: Sequence[Span], unit: Unit, row: Sequence[Spelt]) -> list[Path]:
    return [path_of(source_words, unit, spelt) for spelt in row]


def _lattices(rows: Sequence[Sequence[Path]], most: int) -> list[Lattice]:
    """One lattice for each row; a longer sentence may have more alternatives. Empty where the best paths are too long
    together."""
    lengths = [len(row[0].words) for row in rows]
    if not rows or sum(lengths) > most:
        return []
    built = [lattice(row, most * length // sum(lengths)) for row, length in zip(rows, lengths, strict=True)]
    return [each for each in built if each is not None]


def _arc(edge: Edge, start: int) -> Arc:
    word = edge.word
    return Arc(
        prev_state=start + edge.prev,
        next_state=start + edge.next,
        score=edge.score,
        target_tokens=(word.text,),
        confidences=(word.confidence,),
        source_start=word.source.start,
        source_end=word.source.end,
        alignment=tuple(Link(link - word.source.start, 0) for link in word.links),
        sources=(word.sources,),
    )
