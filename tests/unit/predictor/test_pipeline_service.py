"""From texts to translations with a tokenizer of words and an engine that translates by spelling backwards."""

import re
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from nllb_predictor.engine.domain import How, Hypothesis, Search, Segment
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.errors import DeadlineExceeded, PairNotServed, TextTooLong
from nllb_predictor.pipeline import service as service_module
from nllb_predictor.pipeline.cut import Sentence
from nllb_predictor.pipeline.prepare import Preparer, is_blank
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest, Wants
from nllb_predictor.pipeline.service import HYPOTHESIS, SEGMENT, SHORT, TranslationService, is_short
from nllb_predictor.pipeline.units import Span, Unit
from nllb_predictor.text.languages import LanguagePair, Languages
from nllb_predictor.text.lexicon import Lexicon
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.tokenise import Decoded, Encoded
from nllb_predictor.text.words import tokenize
from tests.support.cases import case

CODES = frozenset({"eng_Latn", "spa_Latn", "fra_Latn"})


def white(text: str) -> list[Span]:
    """What stands between white space."""
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


@dataclass
class Words:
    """One token per word; remembers its calls."""

    calls: list[tuple[str, int]] = field(default_factory=list)

    def encode_with_spans(self, normalised: Sequence[str], source: str) -> list[Encoded]:
        self.calls.append((source, len(normalised)))
        return [
            Encoded((source, *(word.of(text) for word in white(text)), "</s>"), (None, *white(text), None))
            for text in normalised
        ]

    def role(self, name: str) -> str:
        return "<unk>"

    def decode_batch(self, outputs: Sequence[Sequence[str]]) -> list[str]:
        return [" ".join(token for token in tokens if token not in CODES) for tokens in outputs]

    def decode_with_spans(self, outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        return [Decoded(text, (Span(0, 0), *tokenize(text))) for text in self.decode_batch(outputs)]

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in normalised]

    def shown(self, tokens: Sequence[str]) -> list[str]:
        return list(tokens)

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon([])


@dataclass
class Backwards:
    """Spells every word backwards, and notes what it was asked."""

    seen: list[Segment] = field(default_factory=list)

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        self.seen += segments
        return [
            (Hypothesis((each.target, *(token[::-1] for token in each.tokens[1:-1])), -1.0, True),)
            for each in segments
        ]


@pytest.fixture
def engine() -> Backwards:
    return Backwards()


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
async def service(engine: Backwards, words: Words) -> AsyncIterator[TranslationService]:
    scheduler = Scheduler(engine, Limits(queue=64, batch=8))
    service = TranslationService(scheduler, words, Languages(CODES, "eng_Latn", "spa_Latn", any_pair=True), 8)
    yield service
    service.close()
    scheduler.close()


def request(
    *texts: str, sources: Sequence[str | None] = (), targets: Sequence[str | None] = ()
) -> TranslateRequest:
    none = (None,) * len(texts)
    asks = (Ask(*each) for each in zip(texts, sources or none, targets or none, strict=True))
    return TranslateRequest(tuple(asks), Options(Search(1, 99)))


def _all_of_it(ask: Ask, pair: LanguagePair, options: Options) -> list[Sentence]:
    return [Sentence(Reading.of(ask.text), ())]


@case("p07", breaks="nllb_predictor.pipeline.prepare:sentences_of", naive=_all_of_it)
async def test_p07_empty_segments_stay_empty_and_neighbours_keep_their_place(
    service: TranslationService,
) -> None:
    answers = await service.translate(request("", "abc", ""))
    assert [(answer.text, answer.score) for answer in answers] == [("", 0.0), ("cba", -1.0), ("", 0.0)]


@case("p06", breaks="nllb_predictor.pipeline.prepare:sentences_of", naive=_all_of_it)
async def test_p06_blanks_and_dashes_return_as_they_are_without_a_decode_step(
    service: TranslationService, engine: Backwards
) -> None:
    blanks = (" ", "\u3000", "\n\t", "", "--", " - ", "\u200b")
    assert [answer.text for answer in await service.translate(request(*blanks))] == list(blanks)
    assert engine.seen == []


def test_text_is_not_blank() -> None:
    assert not any(is_blank(text) for text in ("a", " a ", "-", "\u200b"))


async def test_each_text_is_read_in_its_own_language_and_written_in_its_own(
    service: TranslationService, engine: Backwards, words: Words
) -> None:
    answers = await service.translate(
        request("ab", "cd", "ef", sources=["en", "fr", "en"], targets=["es", "en", "fra_Latn"])
    )
    assert [answer.text for answer in answers] == ["ba", "dc", "fe"]
    asked = {(segment.tokens[0], segment.tokens[1], segment.target) for segment in engine.seen}
    assert asked == {
        ("eng_Latn", "ab", "spa_Latn"),
        ("fra_Latn", "cd", "eng_Latn"),
        ("eng_Latn", "ef", "fra_Latn"),
    }
    assert sorted(words.calls) == [("eng_Latn", 2), ("fra_Latn", 1)]


def _cut(self: Preparer, index: int, unit: Unit, sentences: int) -> Unit:
    return replace(unit, segment=replace(unit.segment, tokens=(*unit.segment.tokens[:7], "</s>")))


@case("p08", breaks="nllb_predictor.pipeline.prepare:Preparer._checked", naive=_cut)
async def test_p08_a_sentence_beyond_the_limit_is_refused_with_its_tokens_and_the_limit(
    service: TranslationService, engine: Backwards
) -> None:
    with pytest.raises(TextTooLong, match=r"Segment 1 has 9 tokens; this engine reads at most 8"):
        await service.translate(request("ok", "one two three four five six seven"))
    with pytest.raises(
        TextTooLong, match=r"Segment 0 has a sentence \(characters 4 to 38\) of 9 tokens; .* 8"
    ):
        await service.translate(request("Ok. One two three four five six seven."))
    assert engine.seen == []


async def test_megabytes_are_refused_before_they_are_tokenized(
    service: TranslationService, words: Words
) -> None:
    with pytest.raises(TextTooLong, match="1000000 characters"):
        await service.translate(request("x" * 1_000_000))
    assert words.calls == []


async def test_a_pair_that_is_not_served_costs_nothing(engine: Backwards, words: Words) -> None:
    scheduler = Scheduler(engine, Limits(queue=64, batch=8))
    service = TranslationService(scheduler, words, Languages(CODES, "eng_Latn", "spa_Latn"), 8)
    with pytest.raises(PairNotServed):
        await service.translate(request("ab", "cd", targets=["es", "fr"]))
    service.close()
    scheduler.close()
    assert words.calls == []


async def test_texts_that_take_longer_to_read_than_the_call_may_take_are_answered_in_time(
    service: TranslationService, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setattr(words, "encode_with_spans", lambda normalised, source: done.wait(60))
    monkeypatch.setattr(service_module, "SHORT", SEGMENT + 3)
    try:
        with pytest.raises(DeadlineExceeded, match="not read"):
            await service.translate(replace(request("slow"), timeout=0.05))
    finally:
        done.set()


@pytest.mark.parametrize(("text", "beside"), [("a", False), ("aaa", False), ("aaaa", True)])
async def test_only_short_texts_are_read_on_the_event_loop(
    service: TranslationService, words: Words, monkeypatch: pytest.MonkeyPatch, text: str, beside: bool
) -> None:
    read, on_loop = words.encode_with_spans, []
    monkeypatch.setattr(service_module, "SHORT", SEGMENT + 3)

    def seen(normalised: Sequence[str], source: str) -> list[Encoded]:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return read(normalised, source)

    monkeypatch.setattr(words, "encode_with_spans", seen)
    await service.translate(request(text))
    assert on_loop == [not beside]


@pytest.mark.parametrize("wants", [Wants(result=True), Wants(graph=True)])
def test_a_call_is_long_by_all_that_is_computed_for_it(wants: Wants) -> None:
    short = request("a" * (SHORT - SEGMENT))
    assert is_short(short)
    assert not is_short(replace(short, wants=wants))
    assert not is_short(replace(short, asks=(replace(short.asks[0], prefix="a"),)))
    assert not is_short(replace(short, asks=(*short.asks, replace(short.asks[0], text=""))))
    assert not is_short(replace(short, options=replace(short.options, protected_terms=("",))))


@pytest.mark.parametrize(
    "text", ["\n", "\u2028", "\x85", "a\v", "A?", "我。", "ក។", "a;", "😀", "a <i>", r"\w a\w* ", "{a} "]
)
def test_a_call_is_long_by_the_lines_sentences_and_spans_that_it_may_be_cut_into(text: str) -> None:
    assert is_short(request("a" * (SHORT // 2)))
    assert not is_short(request(text * (SHORT // 2 // len(text))))


@pytest.mark.parametrize(("tokens", "beside"), [(3, False), (4, True)])
async def test_only_short_translations_are_written_on_the_event_loop(
    service: TranslationService, words: Words, monkeypatch: pytest.MonkeyPatch, tokens: int, beside: bool
) -> None:
    write, on_loop = words.decode_with_spans, []
    monkeypatch.setattr(service_module, "FEW", HYPOTHESIS + 4)

    def seen(outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return write(outputs)

    monkeypatch.setattr(words, "decode_with_spans", seen)
    await service.translate(request(" ".join("a" * tokens)))
    assert on_loop == [not beside]
