"""First stage: what of a segment goes to the model, and as which tokens. Runs on a helper thread; nothing awaits here.

Text is refused, never cut: first by its characters, before anything is spent on it, then by its tokens.
"""

from collections.abc import Sequence
from typing import Protocol

from nllb_predictor.engine.domain import Segment
from nllb_predictor.errors import TextTooLong
from nllb_predictor.pipeline.request import Ask, Options
from nllb_predictor.pipeline.units import Copied, Part, Prepared, Span, Unit
from nllb_predictor.text.languages import LanguagePair, Languages

CHARACTERS_PER_TOKEN = 64
"""No piece of any NLLB vocabulary has as many. A text with more characters than all tokens together could hold is
refused unread: normalising and tokenizing megabytes would keep the interpreter from everybody else."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    def encode(self, texts: Sequence[str], source: str) -> list[list[str]]:
        """Tokens of each text, language code and end mark included."""

    def decode_batch(self, outputs: Sequence[Sequence[str]]) -> list[str]:
        """Text of each output, special tokens left out."""


class Preparer:
    """Prepares segments for one model."""

    def __init__(self, tokenizer: Tokenizer, languages: Languages, max_input: int) -> None:
        self._tokenizer = tokenizer
        self._languages = languages
        self._max_input = max_input

    def prepare(self, asks: Sequence[Ask], options: Options) -> list[Prepared]:
        """Each segment with its parts, in order. Raises BadRequest's family, TextTooLong."""
        pairs = [self._languages.pair(ask.source, ask.target) for ask in asks]
        self._refuse_unreadable(asks)
        tokens = self._tokens(asks, pairs)
        return [
            Prepared(ask.text, pair, ask.prefix, self._parts(index, ask, pair, tokens.get(index)))
            for index, (ask, pair) in enumerate(zip(asks, pairs, strict=True))
        ]

    def _refuse_unreadable(self, asks: Sequence[Ask]) -> None:
        """Raises TextTooLong for what no tokenizing could make short enough."""
        most = self._max_input * CHARACTERS_PER_TOKEN
        for index, ask in enumerate(asks):
            if len(ask.text) > most and not is_blank(ask.text):
                raise TextTooLong(
                    f"Segment {index} has {len(ask.text)} characters; "
                    f"this engine reads at most {self._max_input} tokens.",
                    field="text",
                    hint="Send its sentences as segments of their own.",
                )

    def _tokens(self, asks: Sequence[Ask], pairs: Sequence[LanguagePair]) -> dict[int, list[str]]:
        """Tokens of all segments that are not blank, one library call per source language."""
        spoken = [index for index, ask in enumerate(asks) if not is_blank(ask.text)]
        found: dict[int, list[str]] = {}
        for source in dict.fromkeys(pairs[index].source for index in spoken):
            places = [index for index in spoken if pairs[index].source == source]
            encoded = self._tokenizer.encode([asks[place].text for place in places], source)
            found.update(zip(places, encoded, strict=True))
        return found

    def _parts(self, index: int, ask: Ask, pair: LanguagePair, tokens: list[str] | None) -> tuple[Part, ...]:
        whole = Span(0, len(ask.text))
        if tokens is None:
            return (Copied(whole, ask.text),)
        if len(tokens) > self._max_input:
            raise TextTooLong(
                f"Segment {index} has {len(tokens)} tokens; this engine reads at most {self._max_input}.",
                field="text",
                hint="Send its sentences as segments of their own.",
            )
        segment = Segment(tuple(tokens), pair.target)
        return (Unit(whole, ask.text, pair, segment, (None,) * len(tokens)),)


def is_blank(text: str) -> bool:
    """Whether there is nothing to translate: no characters, or white space of any kind only."""
    return not text.strip()
