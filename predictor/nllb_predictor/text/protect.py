r"""Spans that must come back exactly once and unchanged: placeholders, addresses, markup, emoji and a caller's terms.

Two kinds, because they are carried over in two ways. What stands for a word (`{count}`, a URL, a name) is read by the
model, which mostly copies it and builds its sentence around it. Markup and emoji are no words: they leave the
sentence before the model sees it, and are put back beside the word that they stood at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import regex

from nllb_predictor.text.scripts import UNSPACED
from nllb_predictor.text.spans import Span, Spans


class Kind(Enum):
    """What a protected span is to its sentence."""

    WORD = "word"
    """Stands for a word."""
    BEFORE = "before"
    """Markup that belongs to what follows: an opening tag, a USFM marker."""
    AFTER = "after"
    """Belongs to what goes before: a closing tag, an emoji, a footnote."""


@dataclass(frozen=True)
class Found:
    """A protected span."""

    span: Span
    kind: Kind


EMOJI = (
    r"(?:\p{RI}{2}"
    r"|[0-9#*]\uFE0F?\u20E3"
    r"|\p{Extended_Pictographic}(?<![©®™ℹ‼⁉〰〽㊗㊙])"
    r"[\uFE0F\p{EMod}\U000E0020-\U000E007F]*"
    r"(?:\u200D\p{Extended_Pictographic}[\uFE0F\p{EMod}]*)*)"
)
"""One whole cluster: flags, keycaps, families, skin tones."""

PATTERNS: tuple[tuple[Kind, str], ...] = (
    (Kind.AFTER, r"\\(?P<note>f|fe|ef|x|ex|fig|rq)\s(?s:(?!\\(?P=note)\s).)*?\\(?P=note)\*"),
    (Kind.AFTER, r"\\\+?[a-z]+\d*(?:-[se])?(?:\s*\|[^\\\n]*)?\*|\\\*"),
    (
        Kind.BEFORE,
        r"\\(?:v|c|ca|va|vp|cp)\s+\d+[\w,\-\u2013]*(?:\s|$)|\\\+?[a-z]+\d*(?:-[se])?(?:\s|(?=\\)|$)",
    ),
    (
        Kind.AFTER,
        r"<!--(?s:(?!<!--).)*?-->|</[A-Za-z][\w:.\-]*\s*>|<[A-Za-z][\w:.\-]*(?:\s[^<>]*)?/>|<br\s*>",
    ),
    (Kind.BEFORE, r"<[A-Za-z][\w:.\-]*(?:\s[^<>]*)?>"),
    (Kind.WORD, r"(?:https?|ftp|file|mailto)://?[^\s<>\"“”]*[^\s<>\"“”.,;:!?'’)\]}]|www\.[^\s<>\"]+\w/?"),
    (Kind.WORD, r"(?<![\w.+\-])[\w.+\-]++@[\w\-]+(?:\.[\w\-]+)+"),
    (Kind.WORD, r"\{\{[^{}\n]*\}\}|\$\{[^{}\n]*\}|%\{[^{}\n]*\}|%\(\w+\)[a-z]|\{[\w.:,\-]*\}"),
    (Kind.WORD, r"(?<![\d%])%(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?[diouxXeEfFgGaAcspn@](?!\w)"),
    (Kind.WORD, r"&(?:#\d+|#[xX][0-9A-Fa-f]+|[A-Za-z]\w*);"),
    (Kind.AFTER, EMOJI),
)
"""In order of precedence: at one place the first that matches wins. None may look back and forth over a long text: that
is why no note or comment holds the beginning of another one, and why the name of an address is never given back."""

SIGN = regex.compile(r"[\\<@{%&\u20E3\p{RI}\p{Extended_Pictographic}]|:/|www\.")
"""Stands in whatever the patterns match. Most texts hold none of it, and this one look is far cheaper than all patterns
at every place."""

_ALL = regex.compile("|".join(f"(?P<k{index}>{pattern})" for index, (_, pattern) in enumerate(PATTERNS)))


def protected_spans(text: str, terms: Sequence[str] = ()) -> list[Found]:
    """All protected spans of a text, in order, none meeting another. A term goes before what is found by pattern only
    where it holds it whole; of two terms the longer one goes first. Terms are matched as whole words, case and all."""
    matches = _ALL.finditer(text) if SIGN.search(text) else ()
    found = {each.span: each for each in map(_matched, matches)}
    matched = Spans(found)
    for span in occurrences(text, terms):
        inside = matched.met_by(span)
        if all(span.start <= each.start and each.end <= span.end for each in inside):
            for each in inside:
                del found[each]
            found[span] = Found(span, Kind.WORD)
    return sorted(found.values(), key=lambda each: each.span.start)


def _matched(match: "regex.Match[str]") -> Found:
    kind = next(kind for index, (kind, _) in enumerate(PATTERNS) if match[f"k{index}"] is not None)
    # The space that ends a marker is a space of the text.
    return Found(Span(match.start(), match.start() + len(match[0].rstrip())), kind)


def occurrences(text: str, terms: Sequence[str]) -> list[Span]:
    """Where the terms stand, the longest first; what one has taken no other one gets."""
    found: list[Span] = []
    taken = bytearray(len(text))
    for term in sorted({term.strip() for term in terms} - {""}, key=lambda term: (-len(term), term)):
        start = text.find(term)
        while start >= 0:
            span = Span(start, start + len(term))
            if not any(taken[span.start : span.end]) and _is_whole(text, span.start, span.end):
                found.append(span)
                taken[span.start : span.end] = b"\1" * len(term)
            start = text.find(term, start + len(term))
    return found


def _is_whole(text: str, start: int, end: int) -> bool:
    return not (_joined(text, start) or _joined(text, end))


def _joined(text: str, place: int) -> bool:
    """Whether the characters before and behind a place belong to one word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if not (before.isalnum() and (after.isalnum() or regex.match(r"\p{M}", after))):
        return False
    return not (UNSPACED.match(before) or UNSPACED.match(after))
