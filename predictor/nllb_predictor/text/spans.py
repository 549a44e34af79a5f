"""Places in a text, as every stage counts them: characters, from zero, end excluded."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a text."""

    start: int
    end: int

    def moved(self, by: int) -> "Span":
        return Span(self.start + by, self.end + by)

    def of(self, text: str) -> str:
        """The characters themselves."""
        return text[self.start : self.end]

    def meets(self, other: "Span") -> bool:
        """Whether both have a character in common; an empty span is where the character behind it is."""
        return self.start < max(other.end, other.start + 1) and other.start < max(self.end, self.start + 1)


class Spans(tuple[Span, ...]):
    """Spans in order, none inside of another one, that know which of them are where. A text may have tens of thousands:
    whoever looked through all of them for each would be busy for minutes."""

    _starts: list[int]
    _ends: list[int]

    @staticmethod
    def of(spans: "Iterable[Span]") -> "Spans":
        """The spans themselves if they know already."""
        return spans if isinstance(spans, Spans) else Spans(spans)

    def __new__(cls, spans: Iterable[Span] = ()) -> "Spans":
        self = super().__new__(cls, spans)
        self._starts = [span.start for span in self]
        self._ends = [max(span.end, span.start + 1) for span in self]
        return self

    def met_by(self, span: Span) -> tuple[Span, ...]:
        """Those that have a character in common with `span`."""
        first = bisect_right(self._ends, span.start)
        return self[first : bisect_left(self._starts, max(span.end, span.start + 1), first)]

    def around(self, place: int) -> bool:
        """Whether a place is inside of one, at neither end of it."""
        return any(span.start < place < span.end for span in self.met_by(Span(place, place + 1)))
