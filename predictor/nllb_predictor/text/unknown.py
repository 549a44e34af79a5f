"""Characters that a model cannot read, counted for the people who look after an engine.

Letters of a new language or accents that the vocabulary lacks become one "unknown" token each, and the translation
silently does without them. The counts tell which ones they are; no text is kept.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

MOST_CHARACTERS = 10_000
"""Different characters that are counted each; Unicode has more, and a caller could send them all."""


class Tally:
    """Counts of one engine since it was loaded. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unknown: Counter[str] = Counter()
        self._read = 0
        self._beyond = 0

    def see(self, read: int, unknown: Iterable[str]) -> None:
        """Count one sentence: all its characters but white space, and those of them that are unknown."""
        with self._lock:
            self._read += read
            for character in unknown:
                if character in self._unknown or len(self._unknown) < MOST_CHARACTERS:
                    self._unknown[character] += 1
                else:
                    self._beyond += 1

    @property
    def rate(self) -> float:
        """Share of characters that could not be read, from 0 to 1."""
        with self._lock:
            return (sum(self._unknown.values()) + self._beyond) / self._read if self._read else 0.0

    def report(self) -> dict[str, Any]:
        """What there is to tell, most frequent characters first."""
        with self._lock:
            counts = self._unknown.most_common()
            read, beyond = self._read, self._beyond
        unknown = sum(count for _, count in counts) + beyond
        return {
            "characters": read,
            "unknown": unknown,
            "rate": round(unknown / read, 8) if read else 0.0,
            "counts": [
                {"character": character, "codePoint": f"U+{ord(character):04X}", "count": count}
                for character, count in counts
            ],
        }
