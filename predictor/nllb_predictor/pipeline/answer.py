"""What the pipeline answers: translations, Serval's translation result and word graph, and warnings.

The two Serval shapes have the names and rules of its REST contract; `as_json` gives them to the last key. Confidences
and scores are rounded to 8 digits, half to even, there and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

DIGITS = 8


class TokenSource(StrEnum):
    """Where a target token comes from, in Serval's words. A copied unknown word has none."""

    PRIMARY = "Primary"
    """The model."""
    HUMAN = "Human"
    """The caller's own beginning of the translation; with `Primary`, since the model judged it too."""


class WarningKind(StrEnum):
    """What may be wrong with a translation although it was given."""

    UNKNOWN_CHARACTERS = "unknown_characters"
    """The model cannot read some characters of the source."""
    TRUNCATED = "truncated"
    """The translation met the length limit."""
    LOOP = "loop"
    """The translation repeats itself, also after a second try."""
    OMISSION = "omission"
    """Part of the source is likely missing."""
    WRONG_SCRIPT = "wrong_script"
    """The translation is not in the script of the target language."""
    NUMBERS_CHANGED = "numbers_changed"
    """Digits in and digits out are not the same."""
    PROTECTED_LOST = "protected_lost"
    """A protected span did not come back exactly once."""
    NOT_SPLIT = "not_split"
    """The segment was translated whole although it has several sentences."""


@dataclass(frozen=True)
class Warned:
    """One warning. `start` and `end` are character offsets into the segment as it was sent."""

    kind: WarningKind
    message: str
    start: int
    end: int
    detail: tuple[str, ...] = ()
    """What exactly: the unknown characters, the lost spans, the repeated words."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "detail": list(self.detail),
        }


@dataclass(frozen=True, order=True)
class Link:
    """A source word and a target word that belong together, zero-based."""

    source: int
    target: int

    def as_json(self) -> dict[str, int]:
        return {"sourceIndex": self.source, "targetIndex": self.target}


@dataclass(frozen=True)
class Phrase:
    """A run of target words up to `target_cut` (exclusive) and the source words [source_start, source_end) of it."""

    source_start: int
    source_end: int
    target_cut: int

    def as_json(self) -> dict[str, int]:
        return {
            "sourceSegmentStart": self.source_start,
            "sourceSegmentEnd": self.source_end,
            "targetSegmentCut": self.target_cut,
        }


@dataclass(frozen=True)
class TranslationResult:
    """Serval's TranslationResult. `target_tokens`, `confidences` and `sources` have equal length."""

    translation: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    confidences: tuple[float, ...]
    sources: tuple[tuple[TokenSource, ...], ...]
    alignment: tuple[Link, ...]
    """In order of source, then target."""
    phrases: tuple[Phrase, ...]
    """In order of target; the last cut is the number of target tokens."""

    def as_json(self) -> dict[str, Any]:
        return {
            "translation": self.translation,
            "sourceTokens": list(self.source_tokens),
            "targetTokens": list(self.target_tokens),
            "confidences": [round(value, DIGITS) for value in self.confidences],
            "sources": [[each.value for each in sources] for sources in self.sources],
            "alignment": [link.as_json() for link in self.alignment],
            "phrases": [phrase.as_json() for phrase in self.phrases],
        }


@dataclass(frozen=True)
class Arc:
    """One arc of a word graph: at least one target token. Its alignment is relative to its own source range and
    tokens."""

    prev_state: int
    next_state: int
    score: float
    """Natural-log probability, additive along a path."""
    target_tokens: tuple[str, ...]
    confidences: tuple[float, ...]
    source_start: int
    source_end: int
    alignment: tuple[Link, ...]
    sources: tuple[tuple[TokenSource, ...], ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "prevState": self.prev_state,
            "nextState": self.next_state,
            "score": round(self.score, DIGITS),
            "targetTokens": list(self.target_tokens),
            "confidences": [round(value, DIGITS) for value in self.confidences],
            "sourceSegmentStart": self.source_start,
            "sourceSegmentEnd": self.source_end,
            "alignment": [link.as_json() for link in self.alignment],
            "sources": [[each.value for each in sources] for sources in self.sources],
        }


@dataclass(frozen=True)
class WordGraph:
    """Serval's WordGraph. State 0 is the initial one; all arcs into a state come before all arcs out of it; every
    final state is the end of some arc."""

    source_tokens: tuple[str, ...]
    arcs: tuple[Arc, ...]
    final_states: tuple[int, ...]
    initial_state_score: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "sourceTokens": list(self.source_tokens),
            "initialStateScore": self.initial_state_score,
            "finalStates": list(self.final_states),
            "arcs": [arc.as_json() for arc in self.arcs],
        }


@dataclass(frozen=True)
class Alternative:
    """One hypothesis of a whole segment. `score` is the mean log-probability over pieces, language token and end
    mark of all its sentences; 0 for copied text."""

    text: str
    score: float
    result: TranslationResult | None = None


@dataclass(frozen=True)
class Sentence:
    """A sentence that was translated on its own: characters [start, end) of the segment as it was sent, and
    [target_start, target_end) of the best translation."""

    start: int
    end: int
    target_start: int
    target_end: int

    def as_json(self) -> dict[str, int]:
        return {
            "start": self.start,
            "end": self.end,
            "targetStart": self.target_start,
            "targetEnd": self.target_end,
        }


@dataclass(frozen=True)
class Translation:
    """One segment's answer. `alternatives` are distinct as text, best first, and never none."""

    alternatives: tuple[Alternative, ...]
    warnings: tuple[Warned, ...] = ()
    source_tokens: int = 0
    """Model tokens read, all sentences together; 0 where nothing was computed."""
    target_tokens: int = 0
    """Model tokens of the best alternative."""
    sentences: tuple[Sentence, ...] = ()
    """In order; what lies between them was copied."""
    graph: WordGraph | None = None

    @property
    def text(self) -> str:
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        return self.alternatives[0].score


Json = Mapping[str, Any]
