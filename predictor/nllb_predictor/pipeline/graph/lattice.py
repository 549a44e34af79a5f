"""Paths that share what they have in common: a trie of their beginnings, and one of their ends.

A state where several beginnings meet has one future only, so every way through the lattice is one of the paths that it
was made of, and its scores can be exact. (If states with several futures were joined, a word would need one score for
several histories, and the model gives it several.) Each state has a potential, the best log-probability of any path to
it, or, in the ends, from it; an arc's score is the difference. Between a path's last shared beginning and its first
shared end lies its own arc, which takes what is left: the sum along each path is that path's log-probability, and no
arc is above zero.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nllb_predictor.pipeline.graph.paths import Path, PathWord

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    """One word between two states."""

    prev: int
    next: int
    score: float
    word: PathWord


@dataclass(frozen=True)
class Lattice:
    """Edges in topological order of their states, which are 0 to `end`; every path begins at 0 and ends at `end`."""

    edges: tuple[Edge, ...]
    end: int


@dataclass(frozen=True)
class _Cut:
    """Where a path leaves the beginnings that it shares and where it reaches the ends that it shares: its own words are
    [own, tail)."""

    path: Path
    own: int
    tail: int


def lattice(paths: Sequence[Path], most: int) -> Lattice | None:
    """The first paths, no two alike, as many as fit into `most` words. None where the first alone does not fit."""
    distinct: dict[Texts, Path] = {}
    for path in paths:
        if path.words:
            distinct.setdefault(path.texts, path)
    kept = list(distinct.values())
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(_cuts(kept[:middle])) <= most else (low, middle - 1)
    return _built(_cuts(kept[:low])) if low else None


def _cuts(paths: Sequence[Path]) -> list[_Cut]:
    """A path's last word is never part of a shared beginning, so that all paths end in one state."""
    beginnings = Counter(
        texts[:place] for texts in (path.texts for path in paths) for place in range(len(texts))
    )
    owns = [_own(path.texts, beginnings) for path in paths]
    ends = Counter(
        path.texts[place:]
        for path, own in zip(paths, owns, strict=True)
        for place in range(own + 1, len(path.texts))
    )
    return [_Cut(path, own, _tail(path.texts, own, ends)) for path, own in zip(paths, owns, strict=True)]


def _own(texts: Texts, beginnings: Counter[Texts]) -> int:
    return max(place for place in range(len(texts)) if place == 0 or beginnings[texts[:place]] > 1)


def _tail(texts: Texts, own: int, ends: Counter[Texts]) -> int:
    places = range(own + 1, len(texts))
    return next((place for place in places if ends[texts[place:]] > 1), len(texts))


def _size(cuts: Sequence[_Cut]) -> int:
    """Words of the lattice."""
    beginnings = {cut.path.texts[:place] for cut in cuts for place in range(1, cut.own + 1)}
    ends = {cut.path.texts[place:] for cut in cuts for place in range(cut.tail, len(cut.path.texts))}
    return len(beginnings) + len(ends) + sum(cut.tail - cut.own for cut in cuts)


State = tuple[str, Texts] | tuple[str, Texts, int]
"""A shared beginning, a shared end, or a place of one path's own words."""


def _states(cut: _Cut) -> list[State]:
    """The states that a path passes: before each word, and after the last one."""
    texts = cut.path.texts
    begun: list[State] = [("begun", texts[:place]) for place in range(cut.own + 1)]
    own: list[State] = [("own", texts, place) for place in range(cut.own + 1, cut.tail)]
    ending: list[State] = [("ending", texts[place:]) for place in range(cut.tail, len(texts) + 1)]
    return [*begun, *own, *ending]


def _built(cuts: Sequence[_Cut]) -> Lattice:
    potential = _potentials(cuts)
    numbers: dict[State, int] = {}
    edges: dict[tuple[State, State, str], Edge] = {}
    # Beginnings and own words are numbered path by path, ends behind all of them and the shorter the later: so every
    # arc leads to a greater number.
    for cut in cuts:
        for state in _states(cut):
            if state[0] != "ending":
                numbers.setdefault(state, len(numbers))
    ends = {state for cut in cuts for state in _states(cut) if state[0] == "ending"}
    for state in sorted(ends, key=lambda state: (-len(state[1]), state[1])):
        numbers[state] = len(numbers)
    for cut in cuts:
        total = cut.path.reached[-1]
        for prev, following, word in _steps(cut):
            begun = potential[prev] if prev[0] != "ending" else total - potential[prev]
            then = potential[following] if following[0] != "ending" else total - potential[following]
            edge = Edge(numbers[prev], numbers[following], then - begun, word)
            edges.setdefault((prev, following, word.text), edge)
    return Lattice(tuple(sorted(edges.values(), key=lambda edge: (edge.prev, edge.next))), len(numbers) - 1)


def _steps(cut: _Cut) -> Iterator[tuple[State, State, PathWord]]:
    states = _states(cut)
    yield from zip(states[:-1], states[1:], cut.path.words, strict=True)


def _potentials(cuts: Sequence[_Cut]) -> dict[State, float]:
    """The best log-probability of a path up to each state; for ends, from it on."""
    best: dict[State, float] = {}
    for cut in cuts:
        reached = (0.0, *cut.path.reached)
        for state, value in zip(_states(cut), reached, strict=True):
            own = reached[-1] - value if state[0] == "ending" else value
            best[state] = max(own, best.get(state, own))
    return best
