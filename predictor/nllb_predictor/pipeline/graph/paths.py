"""A hypothesis as a row of words with log-probabilities: one way through a graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from nllb_predictor.pipeline.answer import TokenSource
from nllb_predictor.pipeline.describe import TargetWord, copied_pieces, pieces_of, target_words
from nllb_predictor.pipeline.graph.explore import Spelt
from nllb_predictor.pipeline.units import Copied, Unit, Written
from nllb_predictor.text.spans import Span


@dataclass(frozen=True)
class PathWord:
    """A word of a translation. `links` are the source words that it belongs to and `source` the run of source words
    that its arc stands for; where the word has no link, that is the run of the word before it."""

    text: str
    confidence: float
    sources: tuple[TokenSource, ...]
    links: tuple[int, ...]
    source: Span


@dataclass(frozen=True)
class Path:
    """One translation of a part. `reached[i]` is the log-probability of everything up to word i; the last one is that
    of the whole translation, end mark included."""

    words: tuple[PathWord, ...]
    reached: tuple[float, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


def path_of(source_words: Sequence[Span], unit: Unit, spelt: Spelt) -> Path:
    """The path of one text. `source_words` are those of the whole segment."""
    text = spelt.written.text
    pieces = pieces_of(unit, spelt.scored)
    words = target_words(source_words, text, pieces_of(unit, _counted(spelt.written)))
    sure = target_words(source_words, text, pieces)
    sums = list(accumulate((piece.log_prob for piece in pieces), initial=0.0))
    reached = [sums[sum(piece.span.start < word.span.end for piece in pieces)] for word in words]
    if reached:
        reached[-1] = sum(spelt.scored.hypothesis.log_probs)
    words = [replace(word, confidence=own.confidence) for word, own in zip(words, sure, strict=True)]
    return _path(source_words, text, words, reached)


def _counted(written: Written) -> Written:
    """With a log-probability for each token, so that each is a piece; only their places and sources are looked at."""
    hypothesis = written.hypothesis
    zeros = (0.0,) * len(hypothesis.tokens)
    return replace(written, hypothesis=replace(hypothesis, log_probs=hypothesis.log_probs or zeros))


def copied_path(source_words: Sequence[Span], part: Copied) -> Path:
    """The words of copied text: certain, and from nowhere but themselves."""
    words = target_words(source_words, part.text, copied_pieces(part))
    return _path(source_words, part.text, words, [0.0] * len(words))


def _path(
    source_words: Sequence[Span], text: str, words: Sequence[TargetWord], reached: Sequence[float]
) -> Path:
    runs = source_runs([word.links for word in words], len(source_words))
    found = [
        PathWord(word.span.of(text), word.confidence, word.sources, word.links, run)
        for word, run in zip(words, runs, strict=True)
    ]
    return Path(tuple(found), tuple(reached))


def source_runs(links: Sequence[Sequence[int]], source_count: int) -> list[Span]:
    """For each target word the run of source words around its links."""
    known = [Span(min(own), max(own) + 1) if own else None for own in links]
    last = next((run for run in known if run), Span(0, source_count))
    runs = []
    for run in known:
        last = run or last
        runs.append(last)
    return runs
