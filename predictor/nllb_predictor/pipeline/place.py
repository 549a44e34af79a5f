"""Puts back what the model never read: markup, emoji, unknown words, each beside the word that it stood at.

Which word of a translation that is, the attention tells: the target token that belongs to the source word most. Where
there is none, the share of the sentence must do. So every such span comes back exactly once, whatever the model wrote;
only its place can be wrong.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import regex

from nllb_predictor.pipeline.units import Carried, Protected, Unit, Written
from nllb_predictor.text.protect import Kind
from nllb_predictor.text.scripts import UNSPACED
from nllb_predictor.text.spans import Span, Spans

WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’_-]+")
CLOSING = regex.compile(r"[\p{Pe}\p{Pf}.,;:!?…%]")
"""What stands without a space behind a word."""
NESTED = ("<", "\\")
"""Markup that has to keep its order; emoji go with their words."""


@dataclass(frozen=True)
class Insertion:
    """A protected span, and the place in the model's text that it goes to."""

    at: int
    protected: Protected


def needs_attention(unit: Unit) -> bool:
    """Whether something of the unit has to be put back by its attention."""
    return any(not each.read for each in unit.protected)


def put_in(unit: Unit, text: Written, typed: int = 0) -> Written:
    """The written text with all that the model did not read put in, behind the `typed` characters that the caller gave
    as its beginning. What the caller typed already is not put in again."""
    if not needs_attention(unit):
        return text
    carried = list(text.carried)
    words, strongest = _words_read(unit), _strongest(unit, text)
    insertions: list[Insertion] = []
    least = typed
    for each in unit.protected:
        if each.read:
            continue
        own = _typed_place(text.text[:typed], each.text, [one.target for one in carried])
        if own is not None:
            carried.append(Carried(each.span, own))
            continue
        at = max(typed, _place(unit, text, each, words, strongest))
        if each.text.startswith(NESTED):
            at = least = max(least, at)
        insertions.append(Insertion(at, each))
    insertions.sort(key=lambda insertion: insertion.at)
    return _inserted(unit, replace(text, carried=tuple(carried)), insertions)


def _typed_place(typed: str, wanted: str, taken: Sequence[Span]) -> Span | None:
    start = typed.find(wanted)
    while start >= 0:
        span = Span(start, start + len(wanted))
        if not any(span.meets(other) for other in taken):
            return span
        start = typed.find(wanted, start + 1)
    return None


def _words_read(unit: Unit) -> list[Span]:
    """The words that the model reads, in order: the same for every span of the unit."""
    hidden = Spans(each.span for each in unit.protected if not each.read)
    places = (unit.reading.place(*match.span()) for match in WORD.finditer(unit.reading.text))
    return [place for place in places if not hidden.met_by(place)]


def _place(
    unit: Unit, text: Written, protected: Protected, words: Sequence[Span], strongest: Mapping[int, int]
) -> int:
    """Where in the model's text a span belongs."""
    anchor = _anchor(unit, protected, words)
    token = _token_of(unit, text, anchor.word, strongest) if anchor else None
    if anchor is None or token is None:
        share = (protected.span.start - unit.span.start) / max(1, len(unit.raw))
        return _edge(text.text, round(share * len(text.text)), round(share * len(text.text)), protected.kind)
    span = text.token_spans[token]
    return _edge(text.text, span.start, span.end, anchor.kind)


@dataclass(frozen=True)
class _Anchor:
    """The word that a span belongs to, in the segment, and the side of it that it stands at."""

    word: Span
    kind: Kind


def _anchor(unit: Unit, protected: Protected, words: Sequence[Span]) -> _Anchor | None:
    """The word before a span, or, for what opens, the one behind; for what stands for a word, the one that no
    punctuation keeps it from."""
    behind = bisect_right(words, protected.span.start, key=lambda word: word.end)
    before = words[behind - 1] if behind else None
    after = next((word for word in words[behind:] if word.start >= protected.span.end), None)
    following = _Anchor(after, Kind.BEFORE) if after else None
    if protected.kind is Kind.BEFORE or before is None:
        return following if protected.kind is not Kind.AFTER else None
    apart = protected.kind is Kind.WORD and _punctuated(unit, before.end, protected.span.start)
    if apart and after and not _punctuated(unit, protected.span.end, after.start):
        return following
    return _Anchor(before, Kind.AFTER)


def _punctuated(unit: Unit, start: int, end: int) -> bool:
    """Whether there is anything but white space and what the model does not read."""
    between = Span(start - unit.span.start, end - unit.span.start).of(unit.raw)
    for each in unit.protected:
        if not each.read and start <= each.span.start and each.span.end <= end:
            between = between.replace(each.text, "")
    return bool(between.strip())


def _strongest(unit: Unit, text: Written) -> dict[int, int]:
    """The source token that each target token that shows something looks at most: the same for every span."""
    visible = [index for index, span in enumerate(unit.token_spans) if span is not None]
    rows = text.hypothesis.attention
    shown = [
        index for index, span in enumerate(text.token_spans) if span.start < span.end and index < len(rows)
    ]
    return {index: max(visible, key=rows[index].__getitem__) for index in shown} if visible else {}


def _token_of(unit: Unit, text: Written, word: Span, strongest: Mapping[int, int]) -> int | None:
    """The target token that a source word belongs to most: among those that look at it more than at anything else,
    where there are any."""
    columns = [index for index, span in enumerate(unit.token_spans) if span is not None and span.meets(word)]
    if not columns or not strongest:
        return None
    rows = text.hypothesis.attention
    weights = {index: sum(rows[index][column] for column in columns) for index in strongest}
    own = [index for index, column in strongest.items() if column in columns]
    return max(own or weights, key=lambda index: weights[index])


def _edge(text: str, start: int, end: int, kind: Kind) -> int:
    """The beginning or end of the word at [start, end); in scripts without spaces, of the token."""
    if kind is Kind.BEFORE:
        while _in_one_word(text, start):
            start -= 1
        while start < end and text[start].isspace():
            start += 1
        return start
    while start < end and not WORD.match(text[end - 1]):
        end -= 1
    while _in_one_word(text, end):
        end += 1
    return end


def _in_one_word(text: str, place: int) -> bool:
    """Whether a place is inside of a word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    unspaced = UNSPACED.match(before) or UNSPACED.match(after)
    return bool(WORD.match(before) and WORD.match(after)) and not unspaced


def _inserted(unit: Unit, text: Written, insertions: Sequence[Insertion]) -> Written:
    """With the insertions, which are in order, made; tokens keep what they show."""
    built, done = "", 0
    grown: list[tuple[int, int]] = []
    carried: list[Carried] = []
    for number, each in enumerate(insertions):
        built += text.text[done : each.at]
        done = each.at
        alone = all(other.at != each.at for other in insertions[number + 1 :])
        before, after = _spaces(unit, each.protected, built, text.text[done:] if alone else "")
        start = len(built) + len(before)
        carried.append(Carried(each.protected.span, Span(start, start + len(each.protected.text))))
        piece = before + each.protected.text + after
        built += piece
        grown.append((each.at, len(piece)))
    moved = [Carried(one.source, _moved(one.target, grown)) for one in text.carried]
    return replace(
        text,
        text=built + text.text[done:],
        token_spans=tuple(_moved(span, grown) for span in text.token_spans),
        carried=tuple(sorted([*moved, *carried], key=lambda one: one.target.start)),
    )


def _spaces(unit: Unit, protected: Protected, before: str, after: str) -> tuple[str, str]:
    """The spaces that an insertion brings: those it had in the source, and for a word those that keep it one."""
    start, end = protected.span.start - unit.span.start, protected.span.end - unit.span.start
    had = unit.raw[start - 1 : start].isspace(), unit.raw[end : end + 1].isspace()
    if protected.kind is Kind.WORD:
        had = had[0] or _in_one_word(before[-1:] + "x", 1), had[1] or _in_one_word("x" + after[:1], 1)
    left = " " if had[0] and before and not before[-1].isspace() else ""
    right = " " if had[1] and after and not (after[0].isspace() or CLOSING.match(after)) else ""
    return left, right


def _moved(span: Span, grown: Sequence[tuple[int, int]]) -> Span:
    """What is inserted at the end of a span is not in it, nor what is at its beginning."""
    start = span.start + sum(length for at, length in grown if at <= span.start)
    end = span.end + sum(length for at, length in grown if at < span.end)
    return Span(start, max(start, end))
