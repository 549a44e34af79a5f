"""What a translation is made of, in words: confidences, alignment and phrases, as Serval's TranslationResult has them.

The model writes pieces, and clients count words. So everything is said of characters first: a piece has its place in
the translation and, by its attention, a place in the segment as it was sent. Words are cut out of both raw texts by
the clients' own rules, and whatever touches a word speaks for it:

- confidence: exp of the mean log-probability of its pieces;
- alignment: each piece belongs to the one source token that it attends to most, code and end mark aside, as
  machine.py has it; a word belongs to every source word that one of its pieces belongs to;
- phrases: cut after each target word where the source words before and behind the cut do not interleave.

Refused here: detokenizing. The text is the model's, and its words are places in it.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from nllb_predictor.pipeline.answer import Link, Phrase, TokenSource, TranslationResult
from nllb_predictor.pipeline.units import Copied, Unit, Written
from nllb_predictor.text.spans import Span
from nllb_predictor.text.words import tokenize


@dataclass(frozen=True)
class Piece:
    """A token of a translation: its place in the text, its log-probability, and where in the segment as sent it comes
    from (None: from nowhere in particular). `copied` text was carried over and not translated."""

    span: Span
    log_prob: float
    source: Span | None
    copied: bool = False

    def moved(self, by: int) -> "Piece":
        """The same piece in a text that has `by` characters more before it."""
        return Piece(self.span.moved(by), self.log_prob, self.source, self.copied)


@dataclass(frozen=True)
class TargetWord:
    """A word of a translation. `links` are the source words that it belongs to, in order."""

    span: Span
    confidence: float
    sources: tuple[TokenSource, ...]
    links: tuple[int, ...]


def pieces_of(unit: Unit, written: Written) -> tuple[Piece, ...]:
    """The pieces of one sentence's translation, the language token left out. The hypothesis has log-probabilities, and
    attention where alignment is wanted."""
    hypothesis = written.hypothesis
    rows = hypothesis.attention or ((),) * len(hypothesis.tokens)
    pieces = [
        _piece(unit, written, span, log_prob, row)
        for span, log_prob, row in zip(
            written.token_spans[1:], hypothesis.log_probs[1:], rows[1:], strict=False
        )
    ]
    # What the model never read was put in by its place alone.
    put_in = [
        Piece(each.target, 0.0, each.source, copied=True)
        for each in written.carried
        if not any(_shows(span, each.target) for span in written.token_spans)
    ]
    return tuple(sorted([*pieces, *put_in], key=lambda piece: piece.span.start))


def _piece(unit: Unit, written: Written, span: Span, log_prob: float, row: Sequence[float]) -> Piece:
    carried = next((each for each in written.carried if _shows(span, each.target)), None)
    if carried is not None:
        return Piece(span, log_prob, carried.source, copied=True)
    return Piece(span, log_prob, attended(unit, row))


def _shows(span: Span, text: Span) -> bool:
    """Whether a token shows something of a text."""
    return span.start < span.end and span.meets(text)


def attended(unit: Unit, row: Sequence[float]) -> Span | None:
    """The place of the source token that a row of attention is highest at, code and end mark aside."""
    places = [(weight, -index) for index, weight in enumerate(row) if unit.token_spans[index] is not None]
    return unit.token_spans[-max(places)[1]] if places else None


def copied_pieces(part: Copied) -> tuple[Piece, ...]:
    """The words of copied text as pieces: certain, and from themselves."""
    words = tokenize(part.text)
    return tuple(Piece(word, 0.0, word.moved(part.span.start), copied=True) for word in words)


def described(source: str, target: str, pieces: Sequence[Piece], typed: int = 0) -> TranslationResult:
    """The result for a whole segment. `pieces` are in order of `target`; `typed` is the number of characters that the
    caller gave as the beginning of the translation."""
    source_words = tokenize(source)
    words = target_words(source_words, target, pieces, typed)
    links = tuple(sorted(Link(link, index) for index, word in enumerate(words) for link in word.links))
    return TranslationResult(
        target,
        tuple(word.of(source) for word in source_words),
        tuple(word.span.of(target) for word in words),
        tuple(word.confidence for word in words),
        tuple(word.sources for word in words),
        links,
        phrases(len(source_words), [word.links for word in words]),
    )


def target_words(
    source_words: Sequence[Span], target: str, pieces: Sequence[Piece], typed: int = 0
) -> list[TargetWord]:
    """The words of a translation, each with what its pieces say of it."""
    spans = tokenize(target)
    sources, targets = WordIndex(source_words), WordIndex(spans)
    of_word: list[list[Piece]] = [[] for _ in spans]
    links: list[set[int]] = [set() for _ in spans]
    for piece in pieces:
        touched = targets.touched(piece.span)
        for index in touched:
            of_word[index].append(piece)
        for index, link in _pairs(touched, sources.touched(piece.source) if piece.source else range(0)):
            links[index].add(link)
    return [
        TargetWord(
            span,
            confidence(piece.log_prob for piece in own),
            _sources(own, span.start < typed),
            tuple(sorted(linked)),
        )
        for span, own, linked in zip(spans, of_word, links, strict=True)
    ]


def _pairs(targets: Sequence[int], sources: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Which words of a piece belong to which words of its source token. Pieces may hold a word and its full stop; then
    they pair off in order, where both hold as many."""
    return zip(targets, sources, strict=True) if len(targets) == len(sources) else product(targets, sources)


def confidence(log_probs: Iterable[float]) -> float:
    """exp of their mean, from 0 to 1. A word without pieces is certain: nothing was computed for it."""
    values = list(log_probs)
    return min(1.0, math.exp(sum(values) / len(values))) if values else 1.0


def _sources(pieces: Sequence[Piece], typed: bool) -> tuple[TokenSource, ...]:
    """A word that was only copied has no source; one that the caller typed, or began to type, is `Human` as well."""
    model = () if all(piece.copied for piece in pieces) else (TokenSource.PRIMARY,)
    return (*model, TokenSource.HUMAN) if typed else model


class WordIndex:
    """Finds words by their place in a text."""

    def __init__(self, words: Sequence[Span]) -> None:
        self._starts = [word.start for word in words]
        self._ends = [word.end for word in words]

    def touched(self, span: Span) -> range:
        """Indexes of the words that have a character in the span; an empty span is where the character behind it is."""
        end = max(span.end, span.start + 1)
        return range(bisect_right(self._ends, span.start), bisect_left(self._starts, end))


@dataclass
class _Block:
    """Target words up to `cut`, and the hull [start, end) of their source words."""

    cut: int
    start: int
    end: int

    def overlaps(self, other: "_Block") -> bool:
        return self.start < other.end and other.start < self.end


def phrases(source_count: int, links: Sequence[Sequence[int]]) -> tuple[Phrase, ...]:
    """The finest row of phrases in order of target whose source words are runs that do not overlap. Together they have
    all source words; a source word without a pair belongs to the phrase of the word before it, a target word without a
    pair too."""
    blocks: list[_Block] = []
    for index, own in enumerate(links):
        if own:
            _append(blocks, _Block(index + 1, min(own), max(own) + 1))
        elif blocks:
            blocks[-1].cut = index + 1
    if not blocks:
        return (Phrase(0, source_count, len(links)),) if links else ()
    in_source_order = sorted(blocks, key=lambda block: block.start)
    in_source_order[0].start = 0
    for block, following in pairwise(in_source_order):
        block.end = following.start
    in_source_order[-1].end = source_count
    return tuple(Phrase(block.start, block.end, block.cut) for block in blocks)


def _append(blocks: list[_Block], block: _Block) -> None:
    """Add a block, joined with every earlier one that it overlaps and with all that stand between them."""
    while True:
        first = next((place for place, each in enumerate(blocks) if each.overlaps(block)), None)
        if first is None:
            break
        joined = [*blocks[first:], block]
        del blocks[first:]
        block = _Block(block.cut, min(each.start for each in joined), max(each.end for each in joined))
    blocks.append(block)
