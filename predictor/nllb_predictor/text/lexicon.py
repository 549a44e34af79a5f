"""The pieces of a vocabulary in alphabetical order: which of them begin with given characters."""

from bisect import bisect_left
from collections.abc import Iterable

LAST_CHARACTER = "\U0010ffff"


class Lexicon:
    """A sorted vocabulary."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = sorted(pieces)

    def __contains__(self, piece: str) -> bool:
        place = bisect_left(self._pieces, piece)
        return place < len(self._pieces) and self._pieces[place] == piece

    def beginning_with(self, start: str) -> tuple[str, ...]:
        """All pieces that begin so, `start` itself included, in order of their characters."""
        first = bisect_left(self._pieces, start)
        return tuple(self._pieces[first : bisect_left(self._pieces, start + LAST_CHARACTER)])
