"""What the model reads of a text, with the place of each of its characters in the text as it was sent.

Line breaks become spaces, protected spans leave, punctuation is normalised: all of that changes what is read, and
nothing of it may change what an answer's offsets mean. So every change is made on a `Reading`, which remembers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from nllb_predictor.text.spans import Span

Place = tuple[int, int]
"""Characters [start, end) of the text as it was sent."""

_END = itemgetter(1)


@dataclass(frozen=True)
class Reading:
    """A text, and for each of its characters the characters that it stands for."""

    text: str
    places: tuple[Place, ...]

    @staticmethod
    def of(text: str, at: int = 0) -> "Reading":
        """The text as it is, found at offset `at`."""
        return Reading(
            text, tuple(zip(range(at, at + len(text)), range(at + 1, at + len(text) + 1), strict=True))
        )

    def __len__(self) -> int:
        return len(self.text)

    def place(self, start: int, end: int) -> Span:
        """What [start, end) of this reading stands for. Nothing stands for the point before what follows."""
        if start < end:
            return Span(self.places[start][0], max(map(_END, self.places[start:end])))
        if start < len(self.places):
            return Span(self.places[start][0], self.places[start][0])
        after = self.places[-1][1] if self.places else 0
        return Span(after, after)

    def part(self, start: int, end: int) -> "Reading":
        """Characters [start, end) alone."""
        return Reading(self.text[start:end], self.places[start:end])

    def stripped(self) -> "Reading":
        """Without white space around."""
        start = len(self.text) - len(self.text.lstrip())
        return self.part(start, max(start, len(self.text.rstrip())))

    def replaced(self, start: int, end: int, by: str) -> "Reading":
        """With other characters in place of [start, end)."""
        return self.edited([(start, end, by)])

    def substituted(self, pattern: re.Pattern[str], replacement: str) -> "Reading":
        """As `pattern.sub(replacement, text)` does it."""
        return self.edited(
            [(match.start(), match.end(), match.expand(replacement)) for match in pattern.finditer(self.text)]
        )

    def edited(self, edits: Sequence[tuple[int, int, str]]) -> "Reading":
        """With other characters in place of each [start, end), in order. What old and new have in common at either end
        stays as it is; the rest stands, together, for what it replaces."""
        if not edits:
            return self
        text: list[str] = []
        places: list[Place] = []
        done = 0
        for start, end, by in edits:
            old = self.text[start:end]
            head = _common(old, by)
            tail = _common(old[head:][::-1], by[head:][::-1])
            text += self.text[done:start], by
            places += self.places[done : start + head]
            instead = self.place(start + head, end - tail)
            places += ((instead.start, instead.end),) * (len(by) - head - tail)
            places += self.places[end - tail : end]
            done = end
        return Reading("".join((*text, self.text[done:])), (*places, *self.places[done:]))


def _common(left: str, right: str) -> int:
    """How many characters both begin with."""
    return next(
        (index for index, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
        min(len(left), len(right)),
    )
