"""Words as the clients of Serval count them: the rules of its Latin word tokenizer, for every script.

A client tokenizes what its user types and compares the words with ours, so the rules are not ours to improve: they
are those of machine.py's `LatinWordTokenizer` and `LatinWordDetokenizer` with their defaults, and tests compare every
kind of text with them. Nothing is lower-cased and no character is changed: a word is a place in the text as it was
sent.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from nllb_predictor.text.spans import Span

URL = regex.compile(r"(?:[\w-]+://?|www[.])[^\s()<>]+(?:[\w\d]+|(?:[^\p{P}\s]|/))", regex.IGNORECASE)
"""What stays whole although it is full of punctuation."""

INNER = regex.compile(r"[&\-.:=,?@\xAD\xB7\u2010\u2011\u2019\u2027]|['_]+")
"""What does not split a word as long as the word goes on behind it."""

SPACES_BESIDE_UNICODES = "\u200b\ufeff"
"""They separate words although Unicode does not call them white space."""

APOSTROPHE = "'"

OPENING = frozenset("([{¿¡<")
SLASHES = frozenset("/\\")
CLOSING_SIGN = ">"

_QUOTES = {'"“”„‟': "double", "'‘’‚‛": "single", "«»": "double angle", "‹›": "single angle"}
QUOTE_KINDS = {mark: kind for marks, kind in _QUOTES.items() for mark in marks}


def tokenize(text: str) -> list[Span]:
    """The words and punctuation marks of a text, in order, as places in it; white space is between them."""
    return [word for chunk in _chunks(text) for word in _words(text, chunk)]


def _chunks(text: str) -> Iterator[Span]:
    """What stands between white space."""
    start = None
    for place, character in enumerate(text):
        if character.isspace() or character in SPACES_BESIDE_UNICODES:
            if start is not None:
                yield Span(start, place)
            start = None
        elif start is None:
            start = place
    if start is not None:
        yield Span(start, len(text))


def _words(text: str, chunk: Span) -> Iterator[Span]:
    url = URL.match(chunk.of(text))
    begin = chunk.start
    if url is not None:
        begin += url.end()
        yield Span(chunk.start, begin)
    reader = _Reader(text, begin)
    while reader.place < chunk.end:
        yield from reader.step()
    yield from reader.rest(chunk.end)


@dataclass
class _Reader:
    """Reads one chunk: `word` is where the word that is being read begins, `inner` where the mark begins that may
    turn out to be inside of it."""

    text: str
    place: int
    word: int | None = None
    inner: int | None = None

    def step(self) -> Iterator[Span]:
        """Read on by a character or a run of equal marks; the words that end with it."""
        here = self.place
        if not _is_mark(self.text[here]):
            if self.word is None:
                self.word = here
            self.inner, self.place = None, here + 1
            return
        end = self._end_of_run(here)
        if self.word is None:
            if self.text[here] == APOSTROPHE:
                self.word = here
            else:
                yield Span(here, end)
        elif self.inner is not None:
            yield from self._word_before_two_marks(here)
            self.word = here
        else:
            mark = INNER.match(self.text, here)
            if mark is not None:
                self.inner, self.place = here, mark.end()
                return
            yield Span(self.word, here)
            yield Span(here, end)
            self.word = None
        self.inner, self.place = None, end

    def rest(self, end: int) -> Iterator[Span]:
        """What is left where the chunk ends. A final apostrophe stays on its word, any other final mark does not."""
        if self.word is None:
            return
        if self.inner is None or self.text[self.inner : end] == APOSTROPHE:
            yield Span(self.word, end)
        else:
            yield Span(self.word, self.inner)
            yield Span(self.inner, end)

    def _word_before_two_marks(self, here: int) -> Iterator[Span]:
        assert self.word is not None
        assert self.inner is not None
        if self.text[self.inner : here] == APOSTROPHE:
            yield Span(self.word, here)
        else:
            yield Span(self.word, self.inner)
            yield Span(self.inner, here)

    def _end_of_run(self, start: int) -> int:
        """End of a run of one mark. It may pass the end of the chunk only if white space were a mark; control
        characters that are white space are not reached."""
        end = start + 1
        while end < len(self.text) and self.text[end] == self.text[start]:
            end += 1
        return end


def _is_mark(character: str) -> bool:
    """Punctuation, a symbol or a control character."""
    category = unicodedata.category(character)
    return category[0] in "PS" or category == "Cc"


def detokenize(words: Sequence[str]) -> str:
    """A text of these words, spaced as Serval's clients space them."""
    open_quotes: list[str] = []
    text, joins = "", True
    for word in words:
        to_left, to_right = _joins(word, open_quotes)
        text += word if joins or to_left else " " + word
        joins = to_right
    return text


def _joins(word: str, open_quotes: list[str]) -> tuple[bool, bool]:
    """Whether a word stands without space to its left and to its right; quotation marks open and close in turn."""
    first = word[0]
    if unicodedata.category(first) == "Sc" or first in OPENING:
        return False, True
    if first in QUOTE_KINDS:
        if open_quotes and QUOTE_KINDS[open_quotes[-1]] == QUOTE_KINDS[first]:
            open_quotes.pop()
            return True, False
        open_quotes.append(first)
        return False, True
    if first in SLASHES:
        return True, True
    return unicodedata.category(first).startswith("P") or first == CLOSING_SIGN, False
