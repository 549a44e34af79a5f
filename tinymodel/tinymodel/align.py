"""Which English verse says what which Spanish verse says.

Why it exists: equal numbers are no proof. The Spanish text counts some chapters as the Hebrew Bible does (its Jonah 2:1
is the English 1:17, and the rest of the chapter is off by one), a few verses are missing on one side, and some hold
two verses.

What it refuses to do: guess. A pair that the words do not support is dropped; nothing is split or merged.
Method: a lexicon of word pairs by their co-occurrence in verses of equal number (Dice's coefficient), then for each
book the best monotone one-to-one alignment (dynamic programming in a band).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\w+")

# Weight of a pair = lexical support + bonus for equal numbers - threshold; only positive weights become pairs.
EQUAL_NUMBER_BONUS = 0.05
THRESHOLD = 0.06
# Verses by which two counts of one book may drift apart: Job is shorter by eight in the Spanish count.
BAND = 12
# Words in more verses than this tell nothing about which verse it is.
TOO_COMMON = 3000
MIN_DICE = 0.1


@dataclass(frozen=True, slots=True)
class Verse:
    """One verse of one text; `chapter` and `number` as that text counts."""

    book: str
    chapter: int
    number: int
    text: str

    @property
    def reference(self) -> tuple[str, int, int]:
        return self.book, self.chapter, self.number


def words(text: str) -> frozenset[str]:
    """The distinct words of a text, lower case."""
    return frozenset(_WORD.findall(text.lower()))


class Lexicon:
    """Word pairs that turn up in the same verses, with Dice's coefficient as their strength."""

    def __init__(self, pairs: Iterable[tuple[frozenset[str], frozenset[str]]]) -> None:
        english: Counter[str] = Counter()
        spanish: Counter[str] = Counter()
        together: Counter[tuple[str, str]] = Counter()
        for left, right in pairs:
            english.update(left)
            spanish.update(right)
            together.update((a, b) for a in left for b in right)
        self._partners: dict[str, dict[str, float]] = {
            word: {} for word, count in english.items() if count <= TOO_COMMON
        }
        for (a, b), count in together.items():
            dice = 2 * count / (english[a] + spanish[b])
            if a in self._partners and count > 1 and dice > MIN_DICE:
                self._partners[a][b] = dice

    def support(self, english: frozenset[str], spanish: frozenset[str]) -> float:
        """Mean over the telling English words of their best partner on the Spanish side, 0 to 1."""
        total = telling = 0.0
        for word in english:
            partners = self._partners.get(word)
            if partners is None:
                continue
            telling += 1
            total += max((dice for other, dice in partners.items() if other in spanish), default=0.0)
        return total / telling if telling else 0.0


def lexicon_from_equal_numbers(english: Iterable[Verse], spanish: Iterable[Verse]) -> Lexicon:
    """A lexicon from verses that carry the same number; the few wrong pairs among them drown."""
    by_reference = {verse.reference: words(verse.text) for verse in spanish}
    return Lexicon(
        (words(verse.text), by_reference[verse.reference])
        for verse in english
        if verse.reference in by_reference
    )


def align_book(
    english: Sequence[Verse], spanish: Sequence[Verse], lexicon: Lexicon
) -> list[tuple[Verse, Verse]]:
    """The best monotone one-to-one pairs of one book, in order. Both sides are given in the order of the book."""
    left = [words(verse.text) for verse in english]
    right = [words(verse.text) for verse in spanish]

    def weight(i: int, j: int) -> float:
        bonus = EQUAL_NUMBER_BONUS if english[i].reference == spanish[j].reference else 0.0
        return lexicon.support(left[i], right[j]) + bonus - THRESHOLD

    best: dict[tuple[int, int], float] = {}
    step: dict[tuple[int, int], str] = {}
    for i in range(len(english) + 1):
        for j in range(max(0, i - BAND), min(len(spanish), i + BAND) + 1):
            options = [(0.0, "start")] if i == j == 0 else []
            if (i - 1, j) in best:
                options.append((best[i - 1, j], "skip english"))
            if (i, j - 1) in best:
                options.append((best[i, j - 1], "skip spanish"))
            if (i - 1, j - 1) in best and (gain := weight(i - 1, j - 1)) > 0:
                options.append((best[i - 1, j - 1] + gain, "pair"))
            best[i, j], step[i, j] = max(options, key=lambda option: option[0])
    return _walk_back(english, spanish, step)


def _walk_back(
    english: Sequence[Verse], spanish: Sequence[Verse], step: dict[tuple[int, int], str]
) -> list[tuple[Verse, Verse]]:
    i, j = max(step)
    pairs = []
    while (move := step[i, j]) != "start":
        if move == "pair":
            i, j = i - 1, j - 1
            pairs.append((english[i], spanish[j]))
        elif move == "skip english":
            i -= 1
        else:
            j -= 1
    return pairs[::-1]
