"""The lines of a segment. A line break is structure: it is never given to the model, and the answer has it again."""

import re
from collections.abc import Iterator, Sequence

from nllb_predictor.text.reading import Reading
from nllb_predictor.text.scripts import UNSPACED
from nllb_predictor.text.spans import Span, Spans

_ONE = r"(?>\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
BREAK = re.compile(_ONE)
PARAGRAPH = re.compile(rf"{_ONE}[^\S\n\r]*{_ONE}\s*")
"""At least one line that is empty."""
WRAP = re.compile(rf"(?<![^\S\n\r])[^\S\n\r]*{_ONE}\s*")
"""A break inside a paragraph, and the white space around it. It begins where that begins: a match that could begin at
each of thousands of spaces would be tried at each, over all the others."""


def lines(text: str, kept: Sequence[Span] = ()) -> Iterator[Reading]:
    """Each line without its break, empty ones left out. Breaks inside of `kept` are none."""
    yield from _between(Reading.of(text), BREAK, Spans.of(kept))


def paragraphs(text: str, kept: Sequence[Span] = ()) -> Iterator[Reading]:
    """Each paragraph of hard-wrapped text as one line."""
    kept = Spans.of(kept)
    for paragraph in _between(Reading.of(text), PARAGRAPH, kept):
        yield one_line(paragraph, kept)


def one_line(reading: Reading, kept: Sequence[Span] = ()) -> Reading:
    """A break is read as a space, or as nothing between characters of a script that has no spaces."""
    text, whole = reading.text, Spans.of(kept)
    return reading.edited(
        [
            (match.start(), match.end(), _joint(text, match.start(), match.end()))
            for match in WRAP.finditer(text)
            if _is_break(reading, match, whole)
        ]
    )


def _is_break(reading: Reading, match: re.Match[str], kept: Spans) -> bool:
    return not kept.met_by(reading.place(match.start(), match.end()))


def _joint(text: str, start: int, end: int) -> str:
    if start == 0 or end == len(text):
        return ""
    return "" if UNSPACED.match(text[start - 1]) and UNSPACED.match(text[end]) else " "


def _between(reading: Reading, pattern: re.Pattern[str], kept: Spans) -> Iterator[Reading]:
    start = 0
    for match in pattern.finditer(reading.text):
        if not _is_break(reading, match, kept):
            continue
        if match.start() > start:
            yield reading.part(start, match.start())
        start = match.end()
    if start < len(reading):
        yield reading.part(start, len(reading))
