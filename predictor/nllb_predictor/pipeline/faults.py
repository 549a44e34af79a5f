"""What may be wrong with a translation, judged by its text and tokens alone. Plain decisions; nothing is repaired here.

Every rule rather misses a fault than accuses a sound translation: a warning that is mostly wrong is not read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import regex

from nllb_predictor.pipeline.answer import Warned, WarningKind
from nllb_predictor.pipeline.units import Found, Unit, Written
from nllb_predictor.text.protect import Kind, occurrences, protected_spans
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.scripts import amount, foreign_share, script_of
from nllb_predictor.text.sentences import sentences

REPAIRABLE = frozenset(
    {WarningKind.LOOP, WarningKind.OMISSION, WarningKind.WRONG_SCRIPT, WarningKind.PROTECTED_LOST}
)
"""What a second try may mend."""

LONGEST_PERIOD = 24
"""Tokens of a repeated phrase that is still seen as one."""
REPEATS = 3
"""So often a phrase may stand in a row in any translation (`Holy, holy, holy`), more often only if its source does."""
NO_SOUND = regex.compile(r"[^\p{L}\p{M}\p{N}]")
DIGIT = regex.compile(r"\p{Nd}")
LOOP_SCORE = -10.0
"""Mean log-probability of a translation that repeats itself: the model is sure of it, and nobody should be."""

OMISSION_FROM = 40.0
OMISSION_SHARE = 0.35
"""A source of so many letters at least (see `scripts.amount`), and less than this share of them in its translation."""
LOST_SENTENCE_SHARE = 0.6
"""As before, where sentences that were not split became fewer. That alone is no fault: translators join them."""

FOREIGN_SHARE = 0.5
FEW_WORDS = 3
"""So few words may all be names that stay in their own script."""


def judged(found: Found) -> Found:
    """With the warnings of the first hypothesis. Where another hypothesis lacks a fault that the first has, the better
    ones go first; one that repeats itself has a low score."""
    rows = [(each, tuple(faults(found.unit, each))) for each in found.written]
    rows.sort(key=lambda row: badness(row[1]))
    written = tuple(_marked(each, own) for each, own in rows)
    return replace(found, written=written, warnings=(*found.unit.warnings, *rows[0][1]))


def badness(warnings: Sequence[Warned]) -> int:
    """How many faults there are that could be mended."""
    return sum(each.kind in REPAIRABLE for each in warnings)


def _marked(written: Written, warnings: Sequence[Warned]) -> Written:
    if all(each.kind is not WarningKind.LOOP for each in warnings):
        return written
    hypothesis = replace(written.hypothesis, score=min(written.hypothesis.score, LOOP_SCORE))
    return replace(written, hypothesis=hypothesis)


@dataclass(frozen=True)
class _Fault:
    """A warning without its place."""

    kind: WarningKind
    message: str
    detail: tuple[str, ...] = ()


def faults(unit: Unit, written: Written) -> Iterator[Warned]:
    """All that may be wrong with one hypothesis of a unit."""
    rules: Sequence[Callable[[Unit, Written], _Fault | None]] = (
        lost_spans,
        loop,
        truncated,
        omission,
        wrong_script,
        changed_numbers,
    )
    for rule in rules:
        fault = rule(unit, written)
        if fault is not None:
            yield Warned(fault.kind, fault.message, unit.span.start, unit.span.end, fault.detail)


def lost_spans(unit: Unit, written: Written) -> _Fault | None:
    """Every protected span exactly once."""
    if not unit.protected:
        return None
    there = {each.source for each in written.carried}
    lost = [each.text for each in unit.protected if each.span not in there]
    rest = _own_text(written)
    words = {each.text for each in unit.protected if each.kind is Kind.WORD}
    again = {each.span.of(rest) for each in protected_spans(rest)} & {each.text for each in unit.protected}
    again |= {span.of(rest) for span in occurrences(rest, sorted(words))}
    detail = (*dict.fromkeys(lost), *sorted(again - set(lost)))
    if not detail:
        return None
    return _Fault(
        WarningKind.PROTECTED_LOST, f"Not exactly once in the translation: {' '.join(detail)}", detail
    )


def loop(unit: Unit, written: Written) -> _Fault | None:
    """A phrase over and over again, more often than the source has any."""
    places, tokens = _said(written.hypothesis.tokens)
    if max(Counter(tokens).values(), default=0) <= REPEATS:
        return None
    count, start, end = longest_repeat(tokens)
    if count <= REPEATS or count <= longest_repeat(_said(unit.segment.tokens)[1])[0] + 1:
        return None
    first, last = places[start], places[start + (end - start) // count - 1]
    phrase = written.text[written.token_spans[first].start : written.token_spans[last].end].strip()
    return _Fault(WarningKind.LOOP, f"The same words {count} times in a row: {phrase}", (phrase,))


def _said(tokens: Sequence[str]) -> tuple[list[int], list[str]]:
    """The tokens without their punctuation and case, and their places; a loop often varies in commas alone."""
    bare = [NO_SOUND.sub("", token).lower() for token in tokens]
    places = [place for place, token in enumerate(bare) if token]
    return places, [bare[place] for place in places]


def longest_repeat(tokens: Sequence[str]) -> tuple[int, int, int]:
    """The run of equal phrases with the most repeats: how many, and the tokens [start, end) of it."""
    best = (1, 0, 0)
    for period in range(1, min(LONGEST_PERIOD, len(tokens) // 2) + 1):
        run = 0
        for place in range(period, len(tokens)):
            run = run + 1 if tokens[place] == tokens[place - period] else 0
            count = run // period + 1
            if count > best[0]:
                best = (count, place + 1 - count * period, place + 1)
    return best


def truncated(unit: Unit, written: Written) -> _Fault | None:
    """The length limit, not the model, ended it."""
    if written.hypothesis.complete:
        return None
    return _Fault(WarningKind.TRUNCATED, f"Cut at the limit of {len(written.hypothesis.tokens)} tokens.")


def omission(unit: Unit, written: Written) -> _Fault | None:
    """Nothing, much too little, or fewer sentences than were given."""
    source, target = amount(_translatable_text(unit)), amount(_own_text(written))
    if source and not target:
        return _Fault(WarningKind.OMISSION, "Nothing was translated.")
    if source >= OMISSION_FROM and target < OMISSION_SHARE * source:
        return _Fault(WarningKind.OMISSION, "The translation is much shorter than its source.")
    if unit.sentences > 1 and target < LOST_SENTENCE_SHARE * source:
        count = len(sentences(Reading.of(written.text), unit.pair.target))
        if count < unit.sentences:
            return _Fault(
                WarningKind.OMISSION, f"{unit.sentences} sentences became {count}, and much shorter."
            )
    return None


def wrong_script(unit: Unit, written: Written) -> _Fault | None:
    """Most letters are not of the target language's script."""
    words = _own_text(written).split()
    if len(words) <= FEW_WORDS:
        words = [word for word in words if word not in unit.raw]
    share = foreign_share(" ".join(words), unit.pair.target)
    if share <= FOREIGN_SHARE:
        return None
    script = script_of(unit.pair.target)
    return _Fault(WarningKind.WRONG_SCRIPT, f"{share:.0%} of the letters are not of the script {script}.")


def changed_numbers(unit: Unit, written: Written) -> _Fault | None:
    """Digits of any script count by their value, wherever they stand: `1,000` may become `1.000`."""
    before, after = digits(unit.raw), digits(written.text)
    if before == after:
        return None
    parts = (("missing", before - after), ("added", after - before))
    detail = tuple(f"{name}: {' '.join(sorted(counts.elements()))}" for name, counts in parts if counts)
    return _Fault(
        WarningKind.NUMBERS_CHANGED, f"Digits differ from the source ({'; '.join(detail)}).", detail
    )


def digits(text: str) -> Counter[str]:
    """How often each decimal digit stands in a text. `regex` knows more of them than Python has values of."""
    return Counter(str(int(character)) for character in DIGIT.findall(text) if character.isdecimal())


def _translatable_text(unit: Unit) -> str:
    text = unit.raw
    for each in sorted(unit.protected, key=lambda one: -one.span.start):
        span = each.span.moved(-unit.span.start)
        text = text[: span.start] + " " + text[span.end :]
    return text


def _own_text(written: Written) -> str:
    """The text without what was carried over."""
    text = written.text
    for each in sorted(written.carried, key=lambda one: -one.target.start):
        text = text[: each.target.start] + " " + text[each.target.end :]
    return text
