"""Places in a text, as every stage counts them: characters, from zero, end excluded."""

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
