"""Begun translations with an engine that knows one sentence letter by letter, and a vocabulary of a few pieces."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor.engine.domain import How, Hypothesis, NextToken, NextTokens, Scoring, Search, Segment
from nllb_predictor.engine.scheduler import Admission, Limits, Scheduler, Ticket
from nllb_predictor.errors import BadRequest, TextTooLong
from nllb_predictor.pipeline.prefix import Base, Beginning, Continued, Continuer, PrefixTokenizer, beginning
from nllb_predictor.pipeline.request import Wants
from nllb_predictor.pipeline.units import Written
from nllb_predictor.pipeline.write import begun
from nllb_predictor.server.wire.contract import Defaults, column, request_of
from nllb_predictor.server.wire.tensors import InferCall, Tensor
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.lexicon import Lexicon
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.spans import Span
from nllb_predictor.text.tokenise import WORD_START
from tests.support.cases import case

TWO_BEAMS = Search(2, 50)
CODE = "spa_Latn"
SENTENCE = ("▁En", "▁el", "▁prin", "cipio", "▁era", "▁la", "▁Pala", "bra.")
"""As the model writes it. Of the tokenizer `princ` is `▁princ`, which the model never writes."""
WORDS = {"En": 1, "el": 1, "principio": 2, "era": 1, "la": 1, "Palabra.": 2}
"""Words of the sentence, and how many pieces they are."""
TEXT = "En el principio era la Palabra."
PIECES = (
    *SENTENCE,
    "▁princ",
    "▁pr",
    "in",
    "ci",
    "▁E",
    "▁Pal",
    "abra",
    *(chr(code) for code in range(33, 127)),
    "▁",
)


def shown(tokens: Sequence[str]) -> list[str]:
    pieces = [token.replace(WORD_START, " ") for token in tokens]
    return [pieces[0].removeprefix(" "), *pieces[1:]] if pieces else []


@dataclass
class Greedy:
    """Spells whole words of the sentence as the model does, and all else by the longest piece at each place."""

    lexicon: Lexicon = field(default_factory=lambda: Lexicon(PIECES))

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        return [list(self._pieces(text)) for text in normalised]

    def _pieces(self, text: str) -> list[str]:
        return [piece for word in text.split() for piece in self._spelt(word)]

    def _spelt(self, word: str) -> list[str]:
        if word in WORDS:
            at = sum(
                count for each, count in WORDS.items() if list(WORDS).index(each) < list(WORDS).index(word)
            )
            return list(SENTENCE[at : at + WORDS[word]])
        rest = WORD_START + word
        found = []
        while rest:
            best = max((each for each in PIECES if rest.startswith(each)), key=len, default="<unk>")
            found.append(best)
            rest = rest[len(best) if best != "<unk>" else 1 :]
        return found

    def shown(self, tokens: Sequence[str]) -> list[str]:
        return shown(["" if token in ("<unk>", CODE) else token for token in tokens])


@dataclass
class Knows:
    """An engine that writes SENTENCE, piece by piece, likes nothing else, and ends at once when made to write other
    pieces. It keeps to its limits as the real one does: new tokens alone count."""

    asked: list[tuple[How, int]] = field(default_factory=list)

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        self.asked.append((how, len(segments)))
        return [self._one(segment, how) for segment in segments]

    def _one(self, segment: Segment, how: How) -> tuple[Hypothesis, ...]:
        tokens = (CODE, *segment.prefix)
        if isinstance(how, Scoring):
            end = self._follows(segment.prefix, "</s>")
            each = (
                0.0,
                *(self._log_prob(segment.prefix, place) for place in range(len(segment.prefix))),
                end,
            )
            return (Hypothesis(tokens, sum(each) / len(each), True, log_probs=each),)
        if isinstance(how, NextTokens):
            names = how.allowed or (*PIECES, "</s>")
            row = [NextToken(name, self._follows(segment.prefix, name)) for name in names]
            best = sorted(row, key=lambda each: -each.log_prob)[: how.top]
            return (Hypothesis(tokens, 0.0, False, next_tokens=(tuple(best),)),)
        rest = SENTENCE[len(segment.prefix) :] if segment.prefix == SENTENCE[: len(segment.prefix)] else ()
        new = rest[: how.max_tokens]
        return (Hypothesis((*tokens, *new), 0.0, len(new) == len(rest)),)

    def _log_prob(self, prefix: tuple[str, ...], place: int) -> float:
        return self._follows(prefix[:place], prefix[place])

    def _follows(self, prefix: tuple[str, ...], token: str) -> float:
        known = prefix == SENTENCE[: len(prefix)]
        expected = (*SENTENCE, "</s>")[len(prefix)] if known and len(prefix) <= len(SENTENCE) else None
        return -0.1 if token == expected else -6.0


@pytest.fixture
def engine() -> Knows:
    return Knows()


@pytest.fixture
async def ticket(engine: Knows) -> AsyncIterator[Ticket]:
    scheduler = Scheduler(engine, Limits(queue=64, batch=32))
    with scheduler.admit(Admission(1, 30.0)) as admitted:
        yield admitted
    scheduler.close()


def text_of(each: Continued, prefix: str) -> str:
    tokens = each.hypothesis.tokens[1:]
    plain = Written("".join(shown(tokens)), (Span(0, 0),) * len(tokens), each.hypothesis)
    return begun(plain, prefix, each.covered).text


async def continued(ticket: Ticket, prefix: str, search: Search = TWO_BEAMS) -> list[str]:
    continuer = Continuer(Greedy(), 64)
    segment = Segment(("eng_Latn", "x", "</s>"), CODE)
    found = await continuer.continued(ticket, segment, continuer.beginning(0, prefix), search)
    return [text_of(each, prefix) for each in found]


def _as_it_is_spelt(tokenizer: PrefixTokenizer, prefix: str) -> Beginning:
    """The naive way: the tokenizer's spelling of the caller's characters is forced."""
    tokens = tuple(tokenizer.pieces([normalise_punctuation(prefix)])[0])
    return Beginning(prefix, (Base(tokens, ""),), 0)


@case("p50", breaks="nllb_predictor.pipeline.prefix:beginning", naive=_as_it_is_spelt)
async def test_p50_every_cut_is_continued_as_the_model_would_have_written_it(ticket: Ticket) -> None:
    for cut in range(1, len(TEXT) + 1):
        found = await continued(ticket, TEXT[:cut])
        assert found[0] == TEXT, TEXT[:cut]
        assert all(text.startswith(TEXT[:cut]) for text in found)


@pytest.mark.parametrize("prefix", ["Zen ", "En el x", "“En el ", "Enel", " En", "日本", "En  el  ", "\t"])
async def test_the_callers_characters_are_kept_whatever_the_model_thinks_of_them(
    ticket: Ticket, prefix: str
) -> None:
    found = await continued(ticket, prefix)
    assert found
    assert all(text.startswith(prefix) for text in found)


async def test_white_space_at_the_end_begins_a_new_word_or_ends(ticket: Ticket) -> None:
    assert (await continued(ticket, "En el "))[0] == TEXT
    assert TEXT + " " in await continued(ticket, TEXT + " ")


async def test_scores_count_the_callers_part_as_every_other(ticket: Ticket) -> None:
    continuer = Continuer(Greedy(), 64)
    segment = Segment(("eng_Latn", "x", "</s>"), CODE)
    for prefix in ("E", "En el princ", TEXT):
        found = await continuer.continued(ticket, segment, continuer.beginning(0, prefix), Search(1, 50))
        best = found[0].hypothesis
        assert best.score == pytest.approx(-0.1 * 9 / 10)
        assert len(best.log_probs) == len(best.tokens) + 1


async def test_places_of_a_word_share_one_batch(ticket: Ticket, engine: Knows) -> None:
    await continued(ticket, "En el princi")
    kinds = [type(how).__name__ for how, _ in engine.asked]
    assert sorted(kinds) == ["NextTokens", "Scoring", "Scoring", "Search"]


def _counts_the_prefix(self: Continuer, index: int, prefix: str) -> Beginning:
    """The naive way: nothing is refused, and the library cuts what its limit does not hold."""
    begun = beginning(self._tokenizer, prefix)
    cut = tuple(Base(base.tokens[: self._max_positions - 3], base.rest) for base in begun.bases)
    return Beginning(prefix, cut, min(begun.certain, self._max_positions - 3))


@case("p47", breaks="nllb_predictor.pipeline.prefix:Continuer.beginning", naive=_counts_the_prefix)
def test_p47_a_prefix_that_leaves_no_position_is_refused_with_the_numbers() -> None:
    continuer = Continuer(Greedy(), 64)
    assert continuer.beginning(0, "En " * 61).longest <= 62
    with pytest.raises(TextTooLong, match=r"segment 3 has 70 tokens; .* at most 64"):
        continuer.beginning(3, "En " * 70)


async def test_p47_limits_count_new_tokens_only(ticket: Ticket) -> None:
    found = await continued(ticket, "En el principio era", Search(2, 2))
    assert found[0] == "En el principio era la Pala"


@given(st.text(alphabet="Enel pricoaLb.x日“…\n", max_size=14))
def test_every_base_spells_the_callers_characters(prefix: str) -> None:
    tokenizer = Greedy()
    found = beginning(tokenizer, prefix)
    assert found.bases
    spelt = {"".join((*base.tokens, base.rest)).rstrip(WORD_START) for base in found.bases}
    assert len(spelt) == 1
    for base, other in itertools.pairwise(found.bases):
        assert base.tokens[: found.certain] == other.tokens[: found.certain]


def test_several_begun_texts_run_beside_each_other(engine: Knows) -> None:
    async def both() -> list[list[str]]:
        scheduler = Scheduler(engine, Limits(queue=64, batch=32))
        with scheduler.admit(Admission(2, 30.0)) as admitted:
            found = await asyncio.gather(*(continued(admitted, each) for each in ("En", "En el pri")))
        scheduler.close()
        return found

    assert [row[0] for row in asyncio.run(both())] == [TEXT, TEXT]


def asked(texts: int, *prefixes: str) -> list[str]:
    """The prefix of each text of a call."""
    tensors = (
        Tensor("text", "BYTES", (texts,), ("x",) * texts),
        Tensor("target_prefix", "BYTES", (len(prefixes),), prefixes),
    )
    request = request_of(InferCall(tensors), Defaults.of(ServeSettings()), Wants())
    return [ask.prefix for ask in request.asks]


def _as_many_as_given(tensor: Tensor | None, count: int) -> tuple[str | None, ...]:
    """The naive way: what is given is taken for what is needed."""
    return (None,) * count if tensor is None else column(tensor)


@case("p49", breaks="nllb_predictor.server.wire.contract:row_values", naive=_as_many_as_given)
def test_p49_one_prefix_is_for_all_texts_and_another_count_is_refused_with_both() -> None:
    assert asked(3, "En") == ["En"] * 3
    assert asked(3, "En", "", "Y") == ["En", "", "Y"]
    with pytest.raises(BadRequest, match="2 values for 3 texts"):
        asked(3, "En", "Y")
