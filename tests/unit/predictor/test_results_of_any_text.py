"""Whatever is sent, through all stages with the tiny model's tokenizer: results keep Serval's rules, for n-best, for
begun translations and for segments of several sentences alike."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.engine.domain import How, Hypothesis, NextToken, NextTokens, Scoring, Search, Segment
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest, Wants
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer
from tests.support.predictor import ROOT
from tests.unit.predictor.test_describe import assert_sound

TEXT = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "He went. ",
                "the earth",
                " ",
                "\n",
                "\r\n",
                "“Come,” ",
                "12 ",
                "€27.40",
                "🎉",
                "{count}",
                "<b>",
                "</b>",
                "\\v 1 ",
                "http://a.org/b ",
                "中文。",
                "हिन्दी ",
                "e\u0301",
                "\u200b",
                "…",
                "</s>",
                "It was so! ",
                "?",
            ]
        ),
        st.characters(codec="utf-8"),
    ),
    max_size=10,
).map("".join)
PREFIX = st.one_of(st.just(""), st.text(max_size=8), st.sampled_from(["the ear", "He ", "“", "\n"]))


class Mirror:
    """Writes the source's own pieces, the last one left out in every other hypothesis, and looks at what it writes."""

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        return [self._one(segment, how) for segment in segments]

    def _one(self, segment: Segment, how: How) -> tuple[Hypothesis, ...]:
        begun = (segment.target, *segment.prefix)
        if isinstance(how, Scoring):
            return (Hypothesis(begun, -0.5, True, log_probs=(0.0, *[-0.5] * len(begun))),)
        if isinstance(how, NextTokens):
            names = how.allowed or ("▁the", "</s>")
            row = tuple(NextToken(name, -1.0 - at) for at, name in enumerate(names[: how.top]))
            return (Hypothesis(begun, 0.0, False, next_tokens=(row,)),)
        return tuple(self._written(segment, begun, how, short) for short in range(how.hypotheses))

    def _written(self, segment: Segment, begun: tuple[str, ...], how: Search, short: int) -> Hypothesis:
        pieces = segment.tokens[1:-1]
        tokens = (*begun, *pieces[: len(pieces) - short])
        rows = tuple(
            tuple(
                1.0 if column == row % len(segment.tokens) else 0.0 for column in range(len(segment.tokens))
            )
            for row in range(len(tokens) + 1)
        )
        return Hypothesis(tokens, -1.0 - short, True, attention=rows if how.attention else ())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_folder(ROOT / "tests" / "data" / "tiny-nllb")


def translated(tokenizer: Tokenizer, ask: Ask, hypotheses: int, split: bool) -> Translation:
    async def call() -> list[Translation]:
        scheduler = Scheduler(Mirror(), Limits(queue=64, batch=32))
        languages = Languages(frozenset(tokenizer.language_codes), "eng_Latn", "spa_Latn")
        service = TranslationService(scheduler, tokenizer, languages, 1024)
        options = Options(Search(3, 50), hypotheses, split_sentences=split)
        try:
            return await service.translate(TranslateRequest((ask,), options, Wants(result=True)))
        finally:
            service.close()
            scheduler.close()

    return asyncio.run(call())[0]


@given(TEXT, PREFIX, st.integers(1, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_result_of_every_text_is_sound(
    tokenizer: Tokenizer, text: str, prefix: str, hypotheses: int, split: bool
) -> None:
    answer = translated(tokenizer, Ask(text, prefix=prefix), hypotheses, split)
    assert 1 <= len(answer.alternatives) <= hypotheses
    assert len({each.text for each in answer.alternatives}) == len(answer.alternatives)
    for each in answer.alternatives:
        assert each.result is not None
        assert each.result.translation == each.text
        assert each.text.startswith(prefix)
        assert_sound(each.result, text)
