"""A pipeline whose model is a function of words: one token per word, and each word looks at the source word of its own
number. What the stages around a model do can be told from what such a model is asked and answers."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nllb_predictor.engine.domain import How, Hypothesis, Search, Segment
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.lexicon import Lexicon
from nllb_predictor.text.spans import Span
from nllb_predictor.text.tokenise import Decoded, Encoded

CODES = frozenset({"eng_Latn", "spa_Latn", "rus_Cyrl", "zho_Hans"})
UNKNOWN = "<unk>"
END = "</s>"
SPELLED = re.compile(r"\S+")


@dataclass(frozen=True)
class WordTokens:
    """One token per word, the unknown one for every word with a character of `unreadable`."""

    unreadable: str = ""

    def encode_with_spans(self, normalised: Sequence[str], source: str) -> list[Encoded]:
        return [self._encoded(text, source) for text in normalised]

    def _encoded(self, text: str, source: str) -> Encoded:
        spans = [Span(*match.span()) for match in SPELLED.finditer(text)]
        tokens = [UNKNOWN if set(span.of(text)) & set(self.unreadable) else span.of(text) for span in spans]
        return Encoded((source, *tokens, END), (None, *spans, None))

    def role(self, name: str) -> str:
        return {"unk_token": UNKNOWN, "eos_token": END}[name]

    def shown(self, tokens: Sequence[str]) -> list[str]:
        hidden = {UNKNOWN, END, *CODES}
        words = ["" if token in hidden else " " + token for token in tokens]
        first = next((place for place, word in enumerate(words) if word), None)
        return [word.removeprefix(" ") if place == first else word for place, word in enumerate(words)]

    def decode_with_spans(self, outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        return [self._decoded(self.shown(tokens)) for tokens in outputs]

    def _decoded(self, shown: Sequence[str]) -> Decoded:
        spans, at = [], 0
        for piece in shown:
            spans.append(Span(at + len(piece) - len(piece.lstrip()), at + len(piece)))
            at += len(piece)
        return Decoded("".join(shown), tuple(spans))

    def decode_batch(self, outputs: Sequence[Sequence[str]]) -> list[str]:
        return [each.text for each in self.decode_with_spans(outputs)]

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in normalised]

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon([])


Words = list[str]
Model = Callable[[Words, Search], list[Words]]
"""From the words of a sentence to those of its hypotheses, best first."""


def copied(words: Words, search: Search) -> list[Words]:
    """The model that changes nothing."""
    return [words]


@dataclass
class WordEngine:
    """An engine that is such a model; `seen` are the sentences that it was asked for."""

    model: Model = copied
    complete: bool = True
    seen: list[str] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        assert isinstance(how, Search)
        self.searches.append(how)
        return [self._translated(segment, how) for segment in segments]

    def _translated(self, segment: Segment, search: Search) -> tuple[Hypothesis, ...]:
        words = list(segment.tokens[1:-1])
        self.seen.append(" ".join(words))
        return tuple(
            self._hypothesis(segment, hypothesis, -1.0 - number)
            for number, hypothesis in enumerate(self.model(words, search)[: search.hypotheses])
        )

    def _hypothesis(self, segment: Segment, words: Words, score: float) -> Hypothesis:
        tokens = (segment.target, *words)
        rows = tuple(looks_at(segment.tokens, place, token) for place, token in enumerate(tokens))
        return Hypothesis(tokens, score, self.complete, attention=rows)


def looks_at(source: Sequence[str], place: int, token: str) -> tuple[float, ...]:
    """At the same word, where the source has it, else at the word of the same number."""
    at = source.index(token) if token in source else min(place, len(source) - 1)
    return tuple(float(column == at) for column in range(len(source)))


@dataclass
class Pipeline:
    """The service with its engine."""

    service: TranslationService
    engine: WordEngine

    async def answer(self, text: str, options: Options | None = None, ask: Ask | None = None) -> Translation:
        request = TranslateRequest((ask or Ask(text),), options or how())
        return (await self.service.translate(request))[0]


def how(**changes: object) -> Options:
    """Options with one beam."""
    return Options(**({"search": Search(1, 99)} | changes))  # type: ignore[arg-type]


@contextmanager
def pipeline(engine: WordEngine, unreadable: str = "", max_input: int = 1024) -> Iterator[Pipeline]:
    """The real service on such an engine."""
    scheduler = Scheduler(engine, Limits(queue=1024, batch=64))
    languages = Languages(CODES, "eng_Latn", "spa_Latn", any_pair=True)
    service = TranslationService(scheduler, WordTokens(unreadable), languages, max_input)
    try:
        yield Pipeline(service, engine)
    finally:
        service.close()
        scheduler.close()
