"""What a caller asks of the pipeline, free of any protocol."""

from dataclasses import dataclass, field
from enum import StrEnum

from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.scheduler import Priority


class Lines(StrEnum):
    """What a line break inside a segment means."""

    KEEP = "keep"
    """Each line is translated on its own; the answer has as many lines, with the same line ends."""
    JOIN = "join"
    """Hard-wrapped text: a single line break counts as a space, and an empty line still ends a paragraph."""


@dataclass(frozen=True)
class Ask:
    """One segment. A language of None stands for the engine's own."""

    text: str
    source: str | None = None
    target: str | None = None
    prefix: str = ""
    """The translation begins with exactly these characters, which may end inside a word."""


@dataclass(frozen=True)
class Options:
    """How the segments of a request are translated."""

    search: Search
    """Beams and limits; hypotheses and attention are set by the stages."""
    hypotheses: int = 1
    """Wanted per segment, at most `search.beams`; fewer where fewer differ as text."""
    split_sentences: bool = True
    """Each sentence is translated on its own. A segment with a prefix is never split."""
    lines: Lines = Lines.KEEP
    copy_untranslatable: bool = True
    """Text without letters is copied and not translated."""
    protected_terms: tuple[str, ...] = ()
    """Spans to carry over unchanged, besides those that are found to be markup, placeholders and the like."""


@dataclass(frozen=True)
class Wants:
    """What costs extra and is computed only if asked for."""

    result: bool = False
    """Words, confidences, alignment and phrases of each hypothesis."""
    graph: bool = False
    """The word graph of each segment."""


@dataclass(frozen=True)
class TranslateRequest:
    """A whole call."""

    asks: tuple[Ask, ...]
    options: Options
    wants: Wants = field(default_factory=Wants)
    timeout: float = 30.0
    """Seconds from the start of `translate`."""
    priority: Priority = Priority.INTERACTIVE
    caller: str = ""
    """Opaque name of who asks, for fairness; empty for all that give none."""
    deterministic: bool = False
    """Whether the answer must not depend on what else is computed at the time."""
