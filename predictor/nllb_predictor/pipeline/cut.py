"""A segment is cut into the sentences that the model gets. Everything between them is copied.

Lines first, then sentences, then what hangs at a sentence's ends without belonging to it: white space, markup, emoji,
list marks. What has no letters of its own is no sentence: the model would make words of it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import regex

from nllb_predictor.pipeline.request import Lines, Options
from nllb_predictor.pipeline.units import Protected
from nllb_predictor.text import lines
from nllb_predictor.text.protect import Found, Kind, protected_spans
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.scripts import has_letters
from nllb_predictor.text.sentences import sentences
from nllb_predictor.text.spans import Span, Spans

LIST_MARK = regex.compile(r"(?:[-*•‣·–—]|\(?\d+\))\s+")
"""At the beginning of a sentence; a number with a full stop may as well be an ordinal (German `3. Mose`)."""


@dataclass(frozen=True)
class Sentence:
    """What the model gets at once: its text with line breaks as they are read, and what must stay as it is in it."""

    reading: Reading
    protected: tuple[Protected, ...]
    sentences: int = 1
    """How many it would be if it were split."""


def cut(text: str, code: str, options: Options, whole: bool) -> list[Sentence]:
    """The sentences of a segment in a language, in order. `whole`: it stays one, less the markup at its ends."""
    found = protected_spans(text, options.protected_terms)
    kept = Spans(each.span for each in found)
    if whole:
        pieces: Iterable[Reading] = [lines.one_line(Reading.of(text), kept)]
    elif options.lines is Lines.KEEP:
        pieces = lines.lines(text, kept)
    else:
        pieces = lines.paragraphs(text, kept)
    split = options.split_sentences and not whole
    parts = [part for piece in pieces for part in (sentences(piece, code, kept) if split else [piece])]
    by_span = {each.span: each for each in found}
    trimmed = [_trimmed(part, _met(by_span, kept, part), options.copy_untranslatable) for part in parts]
    return [
        Sentence(
            part,
            _protected(part, _met(by_span, kept, part)),
            1 if split else _count(part, code, kept, options),
        )
        for part in trimmed
        if _translatable(part, kept, options.copy_untranslatable)
    ]


def _met(by_span: Mapping[Span, Found], kept: Spans, part: Reading) -> list[Found]:
    """What of a segment's protected spans has a character in common with a part of it."""
    return [by_span[span] for span in kept.met_by(part.place(0, len(part)))]


def _count(part: Reading, code: str, kept: Spans, options: Options) -> int:
    alone = sentences(part, code, kept)
    return sum(_translatable(each, kept, options.copy_untranslatable) for each in alone)


def _trimmed(reading: Reading, found: Sequence[Found], marks: bool) -> Reading:
    """Without white space, and without markup, emoji and (`marks`) list marks at its ends."""
    starts = {each.span.start: each.span for each in found if each.kind is not Kind.WORD}
    ends = {each.span.end: each.span for each in found if each.kind is not Kind.WORD}
    while True:
        reading = reading.stripped()
        if not reading.text:
            return reading
        first, last = reading.places[0][0], reading.places[-1][1]
        mark = LIST_MARK.match(reading.text) if marks else None
        if first in starts:
            reading = reading.part(index_of(reading, starts[first].end), len(reading))
        elif last in ends:
            reading = reading.part(0, index_of(reading, ends[last].start))
        elif mark is not None:
            reading = reading.part(mark.end(), len(reading))
        else:
            return reading


def index_of(reading: Reading, place: int) -> int:
    """The first character of a reading that stands at or behind a place."""
    return bisect_left(reading.places, (place, place))


def _protected(reading: Reading, found: Sequence[Found]) -> tuple[Protected, ...]:
    place = reading.place(0, len(reading))
    return tuple(
        Protected(each.span, _text(reading, each.span), kind=each.kind, read=each.kind is Kind.WORD)
        for each in found
        if place.start <= each.span.start and each.span.end <= place.end
    )


def _text(reading: Reading, span: Span) -> str:
    return reading.text[index_of(reading, span.start) : index_of(reading, span.end)]


def _translatable(reading: Reading, kept: Spans, copy: bool) -> bool:
    """Whether anything is left for the model once the protected spans are gone."""
    rest = without(reading, kept.met_by(reading.place(0, len(reading)))).text
    return has_letters(rest) if copy else bool(rest.strip())


CLOSING = regex.compile(r"[,.;:!?]")


def without(reading: Reading, spans: Iterable[Span]) -> Reading:
    """The reading without some places. Of two spaces that come together one stays, and none
    before a comma."""
    return reading.edited(list(_cuts(reading, spans)))


def _cuts(reading: Reading, spans: Iterable[Span]) -> Iterator[tuple[int, int, str]]:
    text, done = reading.text, 0
    for span in spans:
        start, end = max(done, index_of(reading, span.start)), index_of(reading, span.end)
        if end <= start:
            continue
        before = start == 0 or text[start - 1].isspace()
        if before and end < len(text) and text[end].isspace():
            end += 1
        elif before and start > done and CLOSING.match(text, end):
            start -= 1
        yield start, end, ""
        done = end
