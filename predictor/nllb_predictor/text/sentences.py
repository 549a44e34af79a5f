"""Where a line falls into sentences: NLLB was trained on single sentences, and drops one of two.

The rules are the library's (sentencex: terminators, abbreviations, quotes and list marks of some 300 languages), held
back where a wrong cut does more harm than a missing one: inside a protected span, before a lower-case letter, between
a short abbreviation and its number.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import regex
import sentencex

from nllb_predictor.text.languages import short_tag
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span, Spans

EXTRA = regex.compile(r"[។៕]\s*")
"""Ends of sentences that the library does not know."""

WINDOW = 4096
"""Characters that the library gets at once: it holds Python's lock, and quotation marks cost it their square."""

BEFORE_NUMBER = regex.compile(r"(?:^|\P{L})\p{L}{1,2}\.\s*$")
"""`v. 3`, `ch. 4`, `No. 5`: an abbreviation that the next number belongs to."""
NUMBER = regex.compile(r"\p{N}")
GOES_ON = regex.compile(r"\p{Ps}*\p{Ll}")
FULL_STOP = regex.compile(r"\.\s*$")


def sentences(reading: Reading, code: str, kept: Sequence[Span] = ()) -> list[Reading]:
    """The sentences of one line in a language (`spa_Latn`), without the white space between them. No cut is inside any
    of `kept`, which are places in what was sent."""
    text, whole = reading.text, Spans.of(kept)
    ends = {*_ends(text, short_tag(code)), *(match.end() for match in EXTRA.finditer(text))}
    cuts = [
        0,
        *(end for end in sorted(ends) if 0 < end < len(text) and _is_cut(reading, end, whole)),
        len(text),
    ]
    parts = [reading.part(*pair).stripped() for pair in pairwise(cuts)]
    return [part for part in parts if part.text]


def _ends(text: str, tag: str) -> Iterator[int]:
    """Ends of sentences as the library sees them, window by window; each window begins at the last end that is sure,
    and the end of a window is none: the sentence goes on behind it."""
    start = 0
    while start < len(text):
        window = text[start : start + WINDOW]
        ends = [boundary["end_index"] for boundary in sentencex.get_sentence_boundaries(tag, window)]
        if start + WINDOW < len(text):
            ends = ends[:-1]
        yield from (start + end for end in ends)
        start += ends[-1] if ends else WINDOW


def _is_cut(reading: Reading, end: int, kept: Spans) -> bool:
    text, place = reading.text, reading.place(end, end + 1).start
    if kept.around(place):
        return False
    # A regular expression that is anchored at its end would look at the whole text.
    before = text[max(0, end - 12) : end]
    if FULL_STOP.search(before) and GOES_ON.match(text, end):
        return False
    return not (NUMBER.match(text, end) and BEFORE_NUMBER.search(before))
