"""From texts to translations: languages, blanks, tokens, the queue, and text again.

The one path that every protocol uses, so that the same request has the same answer everywhere. It knows languages
and text and no protocol. Steps that a request may add later (splitting, prefixes, guards) stand between preparing
and submitting, and between hypotheses and results.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from nllb_predictor.engine.domain import Hypothesis, Search, Segment
from nllb_predictor.engine.scheduler import Scheduler
from nllb_predictor.errors import TextTooLong
from nllb_predictor.text.languages import LanguagePair, Languages

BLANK_SCORE = 0.0
"""Log-probability of returning white space as it is: certain, and not computed."""

CHARACTERS_PER_TOKEN = 64
"""No piece of any NLLB vocabulary has as many. A text with more characters than all tokens together could hold is
refused unread: normalising and tokenizing megabytes would keep the interpreter from everybody else."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    def encode(self, texts: Sequence[str], source: str) -> list[list[str]]:
        """Tokens of each text, language code and end mark included."""

    def decode_batch(self, outputs: Sequence[Sequence[str]]) -> list[str]:
        """Text of each output, special tokens left out."""


@dataclass(frozen=True)
class TranslateRequest:
    """What a caller asks. The three tuples have equal length n; None stands for the engine's own language."""

    texts: tuple[str, ...]
    sources: tuple[str | None, ...]
    targets: tuple[str | None, ...]
    search: Search
    timeout: float
    """Seconds from the start of `translate`."""


@dataclass(frozen=True)
class Translation:
    """One segment's answer. `score` is the mean log-probability over pieces, language token and end mark."""

    text: str
    score: float
    complete: bool = True


class TranslationService:
    """One loaded model, ready for requests."""

    def __init__(
        self, scheduler: Scheduler, tokenizer: Tokenizer, languages: Languages, max_input: int
    ) -> None:
        self.languages = languages
        self.scheduler = scheduler
        self._tokenizer = tokenizer
        self._max_input = max_input
        # Two: one long text must not hold up the tokenizing of everybody else.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="text")

    async def translate(self, request: TranslateRequest) -> list[Translation]:
        """One translation per text, in order. Raises RequestError's family."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        pairs = [self.languages.pair(*asked) for asked in zip(request.sources, request.targets, strict=True)]
        spoken = [index for index, text in enumerate(request.texts) if not is_blank(text)]
        if not spoken:
            return [Translation(text, BLANK_SCORE) for text in request.texts]
        texts = [request.texts[index] for index in spoken]
        self._refuse_unreadable(request.texts)
        segments = await loop.run_in_executor(
            self._threads, self._segments, texts, [pairs[i] for i in spoken], spoken
        )
        left = max(0.0, request.timeout - (loop.time() - started))
        hypotheses = await self.scheduler.submit(segments, request.search, left)
        answers = await loop.run_in_executor(self._threads, self._translations, hypotheses)
        found = dict(zip(spoken, answers, strict=True))
        return [
            found.get(index) or Translation(text, BLANK_SCORE) for index, text in enumerate(request.texts)
        ]

    def _refuse_unreadable(self, texts: Sequence[str]) -> None:
        """Raises TextTooLong for what no tokenizing could make short enough."""
        most = self._max_input * CHARACTERS_PER_TOKEN
        for index, text in enumerate(texts):
            if len(text) > most and not is_blank(text):
                raise TextTooLong(
                    f"Segment {index} has {len(text)} characters; this engine reads at most {self._max_input} tokens.",
                    field="text",
                    hint="Send its sentences as segments of their own.",
                )

    def _segments(self, texts: list[str], pairs: list[LanguagePair], indices: list[int]) -> list[Segment]:
        """Tokenized texts, one library call per source language. Raises TextTooLong."""
        tokens: list[list[str]] = [[] for _ in texts]
        for source in dict.fromkeys(pair.source for pair in pairs):
            places = [place for place, pair in enumerate(pairs) if pair.source == source]
            encoded = self._tokenizer.encode([texts[place] for place in places], source)
            for place, pieces in zip(places, encoded, strict=True):
                tokens[place] = pieces
        for place, pieces in enumerate(tokens):
            if len(pieces) > self._max_input:
                raise TextTooLong(
                    f"Segment {indices[place]} has {len(pieces)} tokens; this engine reads at most {self._max_input}.",
                    field="text",
                    hint="Send its sentences as segments of their own.",
                )
        return [Segment(tuple(pieces), pair.target) for pieces, pair in zip(tokens, pairs, strict=True)]

    def _translations(self, hypotheses: list[Hypothesis]) -> list[Translation]:
        texts = self._tokenizer.decode_batch([hypothesis.tokens for hypothesis in hypotheses])
        return [
            Translation(text, hypothesis.score, hypothesis.complete)
            for text, hypothesis in zip(texts, hypotheses, strict=True)
        ]

    def close(self) -> None:
        """End the helper threads; the scheduler is closed by whoever made it."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_blank(text: str) -> bool:
    """Whether there is nothing to translate: no characters, or white space of any kind only."""
    return not text.strip()
