"""The parts of a segment on its way through the stages.

A segment is a row of parts that together are its text: sentences that the model translates, and what is copied as it
is (white space between sentences, line ends, text without letters). Every offset refers to the segment as it was sent.
"""

from dataclasses import dataclass, field

from nllb_predictor.engine.domain import Hypothesis, Segment
from nllb_predictor.pipeline.answer import Warned
from nllb_predictor.text.languages import LanguagePair
from nllb_predictor.text.protect import Kind
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.spans import Span as Span


@dataclass(frozen=True)
class Copied:
    """Characters that the answer has unchanged."""

    span: Span
    text: str


@dataclass(frozen=True)
class Protected:
    """A span that must come back unchanged: its place in the segment, and its text."""

    span: Span
    text: str
    stand_in: str = ""
    """What the model reads in its place; empty where it reads the span itself."""
    kind: Kind = Kind.WORD
    read: bool = True
    """Whether the model reads it at all. What it does not read is put back beside the word that it stood at."""


@dataclass(frozen=True)
class Unit:
    """A sentence for the model."""

    span: Span
    """Its place in the segment as sent."""
    raw: str
    """The segment's text of that span."""
    reading: Reading
    """The same with line breaks as the model reads them; what it does not read of `protected` is still in it."""
    pair: LanguagePair
    segment: Segment
    """Tokens as the model reads them."""
    token_spans: tuple[Span | None, ...]
    """For each of `segment.tokens` its place in the segment as sent; None for code and end mark."""
    protected: tuple[Protected, ...] = ()
    warnings: tuple[Warned, ...] = ()
    """What was seen before any translation, such as unknown characters."""
    sentences: int = 1
    """How many it is, where it was not to be split."""


Part = Copied | Unit


@dataclass(frozen=True)
class Prepared:
    """One segment, ready for the model."""

    text: str
    pair: LanguagePair
    prefix: str
    parts: tuple[Part, ...]

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(part for part in self.parts if isinstance(part, Unit))


@dataclass(frozen=True)
class Carried:
    """Text that a translation has unchanged from its source."""

    source: Span
    """Its place in the segment as sent."""
    target: Span
    """Its place in the written text."""


@dataclass(frozen=True)
class Written:
    """A hypothesis as text: protected spans are back in place, unknown tokens gone.

    `token_spans` has the place of each of the hypothesis' tokens in `text`; a token that shows nothing has an empty
    one. Together they cover the text in order.
    """

    text: str
    token_spans: tuple[Span, ...]
    hypothesis: Hypothesis
    carried: tuple[Carried, ...] = ()


@dataclass(frozen=True)
class Found:
    """What the model made of a unit: hypotheses, best first, and what there is to say about the first."""

    unit: Unit
    written: tuple[Written, ...]
    warnings: tuple[Warned, ...] = field(default=())
