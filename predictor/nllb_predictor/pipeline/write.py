"""Hypotheses become text: pieces are joined, protected spans put back, and each token's place is kept.

What the caller gave as the beginning of a translation stands in it to the letter: the model writes its own spelling of
it (plain quotes, composed letters), and that is exchanged for the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nllb_predictor.engine.domain import Hypothesis
from nllb_predictor.pipeline.place import put_in
from nllb_predictor.pipeline.units import Carried, Unit, Written
from nllb_predictor.text.normalise import normalised
from nllb_predictor.text.protect import occurrences
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span
from nllb_predictor.text.tokenise import Decoded


class Decoder(Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    def decode_with_spans(self, outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        """Text of each output and the places of its tokens, special tokens left out."""


@dataclass(frozen=True)
class Draft:
    """A hypothesis that is to be written. The first `covered` characters of its text stand for `prefix`, the
    caller's own."""

    unit: Unit
    hypothesis: Hypothesis
    prefix: str = ""
    covered: int = 0


@dataclass(frozen=True)
class Edit:
    """Characters [start, end) of a text that others take the place of."""

    span: Span
    text: str


def written(decoder: Decoder, drafts: Sequence[Draft]) -> list[Written]:
    """The text of each draft, in order."""
    decoded = decoder.decode_with_spans([draft.hypothesis.tokens for draft in drafts])
    return [
        put_in(draft.unit, _put_back(draft, _begun(each, draft)), len(draft.prefix))
        for draft, each in zip(drafts, decoded, strict=True)
    ]


def _begun(decoded: Decoded, draft: Draft) -> Written:
    return begun(Written(decoded.text, decoded.spans, draft.hypothesis), draft.prefix, draft.covered)


def write(decoder: Decoder, unit: Unit, hypothesis: Hypothesis) -> Written:
    """The text of one hypothesis."""
    return written(decoder, [Draft(unit, hypothesis)])[0]


def begun(text: Written, prefix: str, covered: int) -> Written:
    """With the caller's characters in place of the first `covered` ones, and its tokens where they stand among them."""
    if not prefix:
        return text
    reading = normalised(Reading.of(prefix))
    places = _Places(reading if text.text.startswith(reading.text) else None, covered, len(prefix))
    spans = tuple(Span(places.start(span), places.end(span)) for span in text.token_spans)
    return replace(text, text=prefix + text.text[covered:], token_spans=spans)


@dataclass(frozen=True)
class _Places:
    """Where characters of the model's spelling of a prefix, and those behind it, are in the caller's. Where the model
    spells it in a way that cannot be followed (unknown letters), shares of its length must do."""

    reading: Reading | None
    covered: int
    length: int

    def start(self, span: Span) -> int:
        if span.start >= self.covered:
            return span.start - self.covered + self.length
        if self.reading is None:
            return span.start * self.length // self.covered
        return min(self.reading.place(span.start, min(span.start + 1, len(self.reading))).start, self.length)

    def end(self, span: Span) -> int:
        if span.end > self.covered or span.start >= self.covered:
            return span.end - self.covered + self.length
        if self.reading is None:
            return -(-span.end * self.length // self.covered)
        return self.reading.place(span.start, min(span.end, len(self.reading))).end


def _put_back(draft: Draft, text: Written) -> Written:
    """With every protected span that the translation has, or has a stand-in for, as it was sent. Each is put back once;
    what is missing is the guard's to tell."""
    edits: list[tuple[Edit, Span]] = []
    typed = [Span(0, len(draft.prefix))] if draft.prefix else []
    for each in (one for one in draft.unit.protected if one.read):
        taken = [edit.span for edit, _ in edits] + (typed if each.stand_in else [])
        place = _free_place(text.text, each.stand_in or each.text, taken)
        if place is not None:
            edits.append((Edit(place, each.text), each.span))
    edits.sort(key=lambda pair: pair[0].span.start)
    carried, grown = [], 0
    for edit, source in edits:
        start = edit.span.start + grown
        carried.append(Carried(source, Span(start, start + len(edit.text))))
        grown += len(edit.text) - (edit.span.end - edit.span.start)
    return replace(edited(text, [edit for edit, _ in edits]), carried=tuple(carried))


def _free_place(text: str, wanted: str, taken: Sequence[Span]) -> Span | None:
    """The first place of `wanted`, as a whole word, that no other span was found at."""
    places = occurrences(text, [wanted])
    return next((place for place in places if not any(place.meets(each) for each in taken)), None)


def edited(text: Written, edits: Sequence[Edit]) -> Written:
    """With the edits made, which are in order and apart; a token that an edit touches stands for all of it."""
    if not edits:
        return text
    pieces, places, grown, done = [], [], 0, 0
    for edit in edits:
        pieces += [text.text[done : edit.span.start], edit.text]
        start = edit.span.start + grown
        places.append((edit.span, Span(start, start + len(edit.text))))
        grown += len(edit.text) - (edit.span.end - edit.span.start)
        done = edit.span.end
    spans = tuple(_moved(span, places) for span in text.token_spans)
    return replace(text, text="".join([*pieces, text.text[done:]]), token_spans=spans)


def _moved(span: Span, places: Sequence[tuple[Span, Span]]) -> Span:
    """Where a span is after edits took `old` to `new` each."""
    start, end = span.start, span.end
    for old, new in places:
        grown = new.end - old.end
        if old.end <= span.start:
            start = span.start + grown
        elif old.start <= span.start:
            start = new.start
        if old.end <= span.end:
            end = span.end + grown
        elif old.start < span.end:
            end = new.end
    return Span(start, max(start, end))
