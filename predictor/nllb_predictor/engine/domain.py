"""The words of the engine: what a batch is made of and what comes out. Plain records, no I/O, no library."""

from dataclasses import dataclass

TokenIds = tuple[int, ...]


@dataclass(frozen=True)
class Search:
    """How hypotheses are searched. Equal searches can share a batch.

    `max_tokens` counts new tokens: the language token and what follows the segment's prefix. `patience` 1 ends as
    soon as `beams` hypotheses are finished, which is what transformers calls early stopping. `no_repeat_ngram` forbids
    to repeat any run of so many tokens and `repetition_penalty` above 1 makes each repeated token dearer; both are for
    a second try after a loop.
    """

    beams: int
    max_tokens: int
    patience: float = 1.0
    hypotheses: int = 1
    """Wanted per segment, at most `beams`; the model may find fewer."""
    attention: bool = False
    """Whether each hypothesis carries its attention."""
    log_probs: bool = False
    """Whether each hypothesis carries the log-probabilities of what it wrote; for greedy search only."""
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0


@dataclass(frozen=True)
class Scoring:
    """No search: the segment's prefix is a whole translation, and the log-probability of each token is wanted."""


@dataclass(frozen=True)
class NextTokens:
    """No search: the segment's prefix is followed token by token, and at each place the likeliest next tokens are
    wanted, the first place being that behind the language token.

    `allowed`, where not empty, leaves only these token strings in the choice; their probabilities stay those over the
    whole vocabulary. `last_only` looks behind the end of the prefix alone.
    """

    top: int
    allowed: tuple[str, ...] = ()
    last_only: bool = False


How = Search | Scoring | NextTokens
"""What is to be done with a segment. Equal ones can share a batch."""


@dataclass(frozen=True)
class Segment:
    """One source text as the model reads it: `tokens` with language code and end mark, in the engine's order."""

    tokens: tuple[str, ...]
    target: str
    """Language token that the translation begins with."""
    prefix: tuple[str, ...] = ()
    """Tokens that the translation goes on with, behind the language token."""


@dataclass(frozen=True)
class NextToken:
    """A token that may stand at some place, with its log-probability there."""

    token: str
    log_prob: float


@dataclass(frozen=True)
class Hypothesis:
    """One translation as the model wrote it.

    `tokens` begin with the language token and end without the end mark; `complete` tells whether the model ended it
    or the limit cut it. `score` is the mean log-probability over pieces, language token (counted as 0) and end mark;
    with a prefix, which a search does not score, the prefix counts as 0 too until a `Scoring` says more.
    """

    tokens: tuple[str, ...]
    score: float
    complete: bool
    log_probs: tuple[float, ...] = ()
    """From a `Scoring`: one per token (language token: 0) and one for the end mark. From a `Search` that was asked for
    them the same, with 0 for each token of the prefix."""
    attention: tuple[tuple[float, ...], ...] = ()
    """Where the search asked for it: a row for each of `tokens`, then one for the end mark if `complete`; a column for
    each of the segment's source tokens. Layer and heads are the converter's choice, machine.py's."""
    next_tokens: tuple[tuple[NextToken, ...], ...] = ()
    """From `NextTokens`: for each place the likeliest tokens, best first. The end mark counts as a token."""


@dataclass(frozen=True)
class EngineInfo:
    """What is really in use, for metadata and logs."""

    device: str
    compute_type: str
    requested_compute_type: str
    isa: str
    inter_threads: int
    """Batches at the same time, on all devices together."""
    intra_threads: int
    max_positions: int
    gpus: tuple[int, ...] = ()
    """Numbers of the GPUs that have a copy of the model."""
