"""First stage: what of a segment goes to the model, and as which tokens. Runs on a helper thread; nothing awaits here.

Text is refused, never cut off: first by its characters, before anything is spent on it, then by the tokens of a
sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import regex

from nllb_predictor.engine.domain import Segment
from nllb_predictor.errors import TextTooLong
from nllb_predictor.pipeline.answer import Warned, WarningKind
from nllb_predictor.pipeline.cut import Sentence, cut, without
from nllb_predictor.pipeline.request import Ask, Options
from nllb_predictor.pipeline.units import Copied, Part, Prepared, Protected, Span, Unit
from nllb_predictor.text.languages import LanguagePair, Languages
from nllb_predictor.text.normalise import normalised
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Spans
from nllb_predictor.text.tokenise import Encoded

CHARACTERS_PER_TOKEN = 64
"""No piece of any NLLB vocabulary has as many. A text with more characters than all tokens together could hold is
refused unread: normalising and tokenizing megabytes would keep the interpreter from everybody else."""

WORD = regex.compile(r"[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}\u2019'.,:\-]*[\p{L}\p{M}\p{N}])?")
DIGIT = regex.compile(r"\p{Nd}")

MOST_PROTECTED = 1024
"""Protected spans of one sentence; as many as it may have tokens."""

SHOWN_CHARACTERS = 20
"""Of the unknown ones, in a warning's message; its detail has all."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    def encode_with_spans(self, normalised: Sequence[str], source: str) -> list[Encoded]:
        """Tokens of each text, language code and end mark included, and the place of each."""

    def role(self, name: str) -> str:
        """The token of a role such as `unk_token`."""


class Preparer:
    """Prepares segments for one model. `seen` hears of the characters of each sentence: how many there are but white
    space, and which of them the model cannot read."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        languages: Languages,
        max_input: int,
        seen: Callable[[int, Sequence[str]], None] = lambda read, unknown: None,
    ) -> None:
        self._tokenizer = tokenizer
        self._languages = languages
        self._max_input = max_input
        self._seen = seen
        self._unknown = tokenizer.role("unk_token")

    def prepare(
        self, asks: Sequence[Ask], options: Options, counted: Callable[[int], None] = lambda sentences: None
    ) -> list[Prepared]:
        """Each segment with its parts, in order. `counted` hears how many sentences there are so far, and may refuse
        more by what it raises, before they cost anything. Raises BadRequest's family, TextTooLong."""
        pairs = [self._languages.pair(ask.source, ask.target) for ask in asks]
        self._refuse_unreadable(asks)
        rows: list[list[Unit]] = []
        count = 0
        for ask, pair in zip(asks, pairs, strict=True):
            rows.append([_unread(ask, pair, each) for each in sentences_of(ask, pair, options)])
            count += len(rows[-1])
            counted(count)
        _refuse_cluttered(rows)
        units = self._encoded([unit for row in rows for unit in row])
        readable = iter(self._readable(units, options.copy_untranslatable))
        prepared = []
        for index, (ask, pair, row) in enumerate(zip(asks, pairs, rows, strict=True)):
            own = [self._checked(index, next(readable), len(row)) for _ in row]
            prepared.append(Prepared(ask.text, pair, ask.prefix, parts_of(ask.text, own)))
        return prepared

    def reread(self, units: Sequence[Unit]) -> list[Unit]:
        """The same sentences, read without any of what is protected in them."""
        return self._encoded([_reading_less(unit, unit.protected) for unit in units])

    def _refuse_unreadable(self, asks: Sequence[Ask]) -> None:
        """Raises TextTooLong for what no tokenizing could make short enough."""
        most = self._max_input * CHARACTERS_PER_TOKEN
        for index, ask in enumerate(asks):
            if len(ask.text) > most and not is_blank(ask.text):
                raise TextTooLong(
                    f"Segment {index} has {len(ask.text)} characters; "
                    f"this engine reads at most {self._max_input} tokens.",
                    field="text",
                    hint="Send its sentences as segments of their own.",
                )

    def _encoded(self, units: Sequence[Unit]) -> list[Unit]:
        """The units with their tokens, one library call per source language."""
        found = list(units)
        for source in dict.fromkeys(unit.pair.source for unit in units):
            places = [place for place, unit in enumerate(units) if unit.pair.source == source]
            readings = [_as_read(units[place]) for place in places]
            encoded = self._tokenizer.encode_with_spans([each.text for each in readings], source)
            for place, reading, each in zip(places, readings, encoded, strict=True):
                found[place] = self._with_tokens(units[place], reading, each)
        return found

    def _with_tokens(self, unit: Unit, reading: Reading, encoded: Encoded) -> Unit:
        spans = tuple(span and reading.place(span.start, span.end) for span in encoded.spans)
        segment = Segment(encoded.tokens, unit.pair.target)
        return replace(unit, segment=segment, token_spans=spans)

    def _readable(self, units: Sequence[Unit], copy: bool) -> list[Unit]:
        """What the model cannot read it cannot copy: protected spans with unknown characters and, with `copy`, unknown
        words leave the sentence, to be put back into its translation."""
        found = [self._told(unit) for unit in units]
        hidden = {place: self._unreadable(unit, copy) for place, unit in enumerate(found)}
        places = [place for place, spans in hidden.items() if spans]
        again = self._encoded([_reading_less(found[place], hidden[place]) for place in places])
        for place, unit in zip(places, again, strict=True):
            found[place] = unit
        return found

    def _told(self, unit: Unit) -> Unit:
        """The unit with its unknown characters as a warning; those of protected spans are nobody's loss."""
        kept = Spans(each.span for each in unit.protected)
        spans = [span for span in self._unknown_spans(unit) if not kept.met_by(span)]
        unknown = [character for span in spans for character in _visible(unit, span)]
        self._seen(sum(map(len, unit.reading.text.split())), unknown)
        return replace(unit, warnings=(*unit.warnings, *_unknown_warning(unit, unknown)))

    def _unreadable(self, unit: Unit, copy: bool) -> list[Protected]:
        unknown = Spans(self._unknown_spans(unit))
        lost = [each for each in unit.protected if each.read and unknown.met_by(each.span)]
        words = unknown_words(unit, unknown) if copy else []
        return sorted([*lost, *words], key=lambda each: each.span.start)

    def _unknown_spans(self, unit: Unit) -> list[Span]:
        pairs = zip(unit.segment.tokens, unit.token_spans, strict=True)
        return [span for token, span in pairs if token == self._unknown and span is not None]

    def _checked(self, index: int, unit: Unit, sentences: int) -> Unit:
        """Raises TextTooLong."""
        count = len(unit.segment.tokens)
        if count > self._max_input:
            where = (
                f" a sentence (characters {unit.span.start} to {unit.span.end}) of" if sentences > 1 else ""
            )
            raise TextTooLong(
                f"Segment {index} has{where} {count} tokens; this engine reads at most {self._max_input}.",
                field="text",
                hint="Send its sentences as segments of their own.",
            )
        return unit


def sentences_of(ask: Ask, pair: LanguagePair, options: Options) -> list[Sentence]:
    """What of a segment the model gets. A caller who has begun the translation has begun it as a whole."""
    if is_blank(ask.text):
        return []
    return cut(ask.text, pair.source, options, whole=bool(ask.prefix))


def parts_of(text: str, units: Iterable[Unit]) -> tuple[Part, ...]:
    """The units and, between them, what is copied; together they are the text."""
    parts: list[Part] = []
    done = 0
    for unit in units:
        parts += _copied(text, done, unit.span.start)
        parts.append(unit)
        done = unit.span.end
    return (*parts, *_copied(text, done, len(text))) or (Copied(Span(0, 0), ""),)


def _copied(text: str, start: int, end: int) -> Iterator[Copied]:
    if start < end:
        yield Copied(Span(start, end), text[start:end])


def _unread(ask: Ask, pair: LanguagePair, sentence: Sentence) -> Unit:
    """A unit without its tokens."""
    span = sentence.reading.place(0, len(sentence.reading))
    warnings = (_not_split(span, sentence.sentences),) if ask.prefix and sentence.sentences > 1 else ()
    segment = Segment((), pair.target)
    return Unit(
        span,
        span.of(ask.text),
        sentence.reading,
        pair,
        segment,
        (),
        sentence.protected,
        warnings,
        sentence.sentences,
    )


def _refuse_cluttered(rows: Sequence[Sequence[Unit]]) -> None:
    """Raises TextTooLong for a sentence with more protected spans than can be put back in any time: each is looked for
    in the translation, beside all the others."""
    for index, row in enumerate(rows):
        most = max((len(unit.protected) for unit in row), default=0)
        if most > MOST_PROTECTED:
            raise TextTooLong(
                f"Segment {index} has a sentence with {most} placeholders, tags, emoji and terms; "
                f"there may be {MOST_PROTECTED}.",
                field="text",
                hint="Send its sentences as segments of their own.",
            )


def unknown_words(unit: Unit, unknown: Sequence[Span]) -> list[Protected]:
    """The words that the model cannot read at all, where it can read the most of the sentence: names in a foreign
    script, numbers. A sentence that is mostly unknown has nothing to put them back into."""
    known = Spans.of(unknown)
    if not known:
        return []
    kept = Spans(each.span for each in unit.protected)
    words = [Span(*match.span()) for match in WORD.finditer(unit.reading.text)]
    places = [unit.reading.place(word.start, word.end) for word in words]
    lost = [
        (word, place)
        for word, place in zip(words, places, strict=True)
        if _is_lost(word.of(unit.reading.text), place, known.met_by(place)) and not kept.met_by(place)
    ]
    if 2 * len(lost) > len(words):
        return []
    return [Protected(place, word.of(unit.reading.text)) for word, place in lost]


def _is_lost(word: str, place: Span, unknown: Sequence[Span]) -> bool:
    """A number loses its meaning with one digit, a word with most of its letters."""
    missing = sum(max(0, min(span.end, place.end) - max(span.start, place.start)) for span in unknown)
    return missing > 0 if DIGIT.search(word) else 2 * missing > len(word)


def _reading_less(unit: Unit, hidden: Sequence[Protected]) -> Unit:
    """The unit with some protected spans kept from the model."""
    gone = set(hidden)
    others = [each for each in unit.protected if each not in gone]
    protected = [*others, *(replace(each, read=False) for each in hidden)]
    return replace(unit, protected=tuple(sorted(protected, key=lambda each: each.span.start)))


def _as_read(unit: Unit) -> Reading:
    """What the tokenizer gets."""
    return normalised(without(unit.reading, [each.span for each in unit.protected if not each.read]))


def _visible(unit: Unit, span: Span) -> str:
    return "".join(span.moved(-unit.span.start).of(unit.raw).split())


def _unknown_warning(unit: Unit, characters: Sequence[str]) -> Iterator[Warned]:
    different = tuple(dict.fromkeys(characters))
    if different:
        shown = " ".join(different[:SHOWN_CHARACTERS]) + (" …" if len(different) > SHOWN_CHARACTERS else "")
        message = f"The model cannot read {len(different)} of the characters: {shown}"
        yield Warned(WarningKind.UNKNOWN_CHARACTERS, message, unit.span.start, unit.span.end, different)


def _not_split(span: Span, sentences: int) -> Warned:
    message = f"The beginning that was given belongs to {sentences} sentences; they were translated as one."
    return Warned(WarningKind.NOT_SPLIT, message, span.start, span.end)


def is_blank(text: str) -> bool:
    """Whether there is nothing to translate: no characters, or white space of any kind only."""
    return not text.strip()
