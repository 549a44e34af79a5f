"""The words of the engine: what a batch is made of and what comes out. Plain records, no I/O, no library."""

from dataclasses import dataclass

TokenIds = tuple[int, ...]


@dataclass(frozen=True)
class Search:
    """How hypotheses are searched. Equal searches can share a batch.

    `patience` 1 ends as soon as `beams` hypotheses are finished, which is what transformers calls early stopping.
    """

    beams: int
    max_tokens: int
    patience: float = 1.0


@dataclass(frozen=True)
class Segment:
    """One source text as the model reads it: `tokens` with language code and end mark, in the engine's order."""

    tokens: tuple[str, ...]
    target: str
    """Language token that the translation begins with."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation as the model wrote it.

    `tokens` begin with the language token and end without the end mark; `complete` tells whether the model ended it
    or the limit cut it. `score` is the mean log-probability over pieces, language token and end mark.
    """

    tokens: tuple[str, ...]
    score: float
    complete: bool


@dataclass(frozen=True)
class EngineInfo:
    """What is really in use, for metadata and logs."""

    device: str
    compute_type: str
    requested_compute_type: str
    isa: str
    inter_threads: int
    intra_threads: int
    max_positions: int
