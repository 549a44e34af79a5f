"""Sentences, lines, protected spans and doubtful translations, from a request to its answer."""

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.engine.domain import Search
from nllb_predictor.pipeline import faults
from nllb_predictor.pipeline.answer import Warned, WarningKind
from nllb_predictor.pipeline.prepare import Preparer
from nllb_predictor.pipeline.request import Ask, Lines, Options
from nllb_predictor.pipeline.units import Copied, Found, Unit, Written
from nllb_predictor.pipeline.write import Draft, written
from nllb_predictor.text import lines
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.protect import protected_spans
from nllb_predictor.text.reading import Reading
from tests.support.cases import case
from tests.support.pipeline import CODES, UNKNOWN, WordEngine, Words, WordTokens, how, pipeline

RIVER = "The river rose. The bridge held.\u3000 Nobody slept."


def kinds(warnings: Sequence[Warned]) -> list[WarningKind]:
    return [each.kind for each in warnings]


def first_sentence(words: Words, search: Search) -> list[Words]:
    """What NLLB does to several sentences, at its worst."""
    end = next((place for place, word in enumerate(words) if word.endswith(".")), len(words))
    return [words[: end + 1]]


def _unsplit(reading: Reading, code: str, kept: object = ()) -> list[Reading]:
    return [reading.stripped()]


@case("p01", breaks="nllb_predictor.pipeline.cut:sentences", naive=_unsplit)
async def test_p01_every_sentence_comes_back_with_what_stood_between() -> None:
    with pipeline(WordEngine(first_sentence)) as translating:
        answer = await translating.answer(RIVER)
        assert (answer.text, answer.warnings) == (RIVER, ())
        assert sorted(translating.engine.seen) == ["Nobody slept.", "The bridge held.", "The river rose."]
        places = [(each.start, each.end) for each in answer.sentences]
        assert [RIVER[slice(*place)] for place in places] == [
            "The river rose.",
            "The bridge held.",
            "Nobody slept.",
        ]
        assert [(each.target_start, each.target_end) for each in answer.sentences] == places


@case("p01", breaks="nllb_predictor.pipeline.faults:omission")
async def test_p01_who_wants_no_splitting_hears_of_lost_sentences() -> None:
    with pipeline(WordEngine(first_sentence)) as translating:
        answer = await translating.answer(RIVER, how(split_sentences=False))
        assert answer.text == "The river rose."
        assert kinds(answer.warnings) == [WarningKind.OMISSION]
        assert (answer.warnings[0].start, answer.warnings[0].end) == (0, len(RIVER))


@case("p12", breaks="nllb_predictor.pipeline.prepare:_not_split", naive=lambda span, sentences: None)
async def test_p12_a_begun_translation_is_one_and_says_so() -> None:
    with pipeline(WordEngine()) as translating:
        service = translating.service
        prepared = service._preparer.prepare([Ask("He came. She left.", prefix="El")], how())
        assert [unit.raw for unit in prepared[0].units] == ["He came. She left."]
        assert kinds([warning for warning in prepared[0].units[0].warnings if warning]) == [
            WarningKind.NOT_SPLIT
        ]


def stuck(words: Words, search: Search) -> list[Words]:
    """Loops until it is kept from it."""
    once = ["put", "the", "tool", "on", "our", "list"]
    return [once] if search.no_repeat_ngram else [[*once, *["the", "list"] * 20]]


def _same_search(search: Search, kinds: set[WarningKind]) -> Search:
    return search


UNTIDY = "kindly put tool on allow list see enclosed cant edit own"


@case("p03", breaks="nllb_predictor.pipeline.guard:second_search", naive=_same_search)
async def test_p03_a_loop_is_tried_again_with_repetition_made_dear() -> None:
    with pipeline(WordEngine(stuck)) as translating:
        answer = await translating.answer(UNTIDY)
        assert (answer.text, kinds(answer.warnings), answer.score) == ("put the tool on our list", [], -1.0)
        assert len(translating.engine.searches) == 2


@case("p03", breaks="nllb_predictor.pipeline.faults:loop")
async def test_p03_a_loop_that_stays_is_told_and_has_a_low_score() -> None:
    with pipeline(WordEngine(lambda words, search: [["the", "list"] * 20])) as translating:
        answer = await translating.answer(UNTIDY)
        assert kinds(answer.warnings) == [WarningKind.LOOP]
        assert answer.warnings[0].detail == ("the list",)
        assert answer.score <= -10


def _any_repeat(unit: Unit, text: Written) -> object:
    repeated = faults.longest_repeat(text.hypothesis.tokens)[0] > 1
    return faults._Fault(WarningKind.LOOP, "") if repeated else None


@case("p03", breaks="nllb_predictor.pipeline.faults:loop", naive=_any_repeat)
@pytest.mark.parametrize("text", ["Holy, holy, holy, is the night.", "ha ha ha ha ha ha ha ha"])
async def test_p03_a_repeat_of_the_source_is_left_alone(text: str) -> None:
    with pipeline(WordEngine(lambda words, search: [[word.lower() for word in words]])) as translating:
        answer = await translating.answer(text)
        assert (answer.text, answer.warnings) == (text.lower(), ())
        assert len(translating.engine.searches) == 1


NUMBERS = ["318", "7-41-903", "4 8 15 16", "-- 12 --", "🎉 👩‍👩‍👧", "%1$s {count}", "https://x.org"]


@case("p05", breaks="nllb_predictor.pipeline.cut:has_letters", naive=lambda text: True)
@pytest.mark.parametrize("text", [*NUMBERS, "--", "…", "*\n*"])
async def test_p05_text_without_letters_is_copied_without_a_decode_step(text: str) -> None:
    with pipeline(WordEngine()) as translating:
        answer = await translating.answer(text)
        assert (answer.text, answer.score, answer.target_tokens) == (text, 0.0, 0)
        assert translating.engine.seen == []


@case("p05", breaks="nllb_predictor.pipeline.cut:_translatable", naive=lambda part, kept, copy: False)
async def test_p05_copying_can_be_switched_off() -> None:
    with pipeline(WordEngine()) as translating:
        await translating.answer("318", how(copy_untranslatable=False))
        assert translating.engine.seen == ["318"]


@case("p05", breaks="nllb_predictor.pipeline.faults:changed_numbers")
async def test_p05_digits_that_change_are_told() -> None:
    with pipeline(WordEngine(lambda words, search: [["tengo", "1.05", "años"]])) as translating:
        answer = await translating.answer("I am 1,50 old")
        assert kinds(answer.warnings) == []
        answer = await translating.answer("I am 31 old")
        assert kinds(answer.warnings) == [WarningKind.NUMBERS_CHANGED]
        assert answer.warnings[0].detail == ("missing: 3", "added: 0 5")


@case("p08", breaks="nllb_predictor.pipeline.cut:sentences", naive=_unsplit)
async def test_p08_a_long_text_is_translated_to_its_last_word() -> None:
    text = "The lamp is lit. " * 300
    with pipeline(WordEngine()) as translating:
        assert (await translating.answer(text)).text == text


@case("p08", breaks="nllb_predictor.pipeline.faults:truncated")
async def test_p08_a_translation_that_met_the_limit_says_so() -> None:
    with pipeline(WordEngine(complete=False)) as translating:
        answer = await translating.answer("Go on. And on.")
        assert kinds(answer.warnings) == [WarningKind.TRUNCATED] * 2
        assert [(each.start, each.end) for each in answer.warnings] == [(0, 6), (7, 14)]


@case("p15", breaks="nllb_predictor.pipeline.prepare:_unknown_warning", naive=lambda unit, characters: ())
async def test_p15_unknown_characters_are_named_and_none_is_made_up() -> None:
    with pipeline(WordEngine(lambda words, search: [[UNKNOWN, "el", UNKNOWN]]), "《鹰》与鸡") as translating:
        answer = await translating.answer("《鹰》与鸡", ask=Ask("《鹰》与鸡", "zho_Hans"))
        assert answer.text == "el"
        assert kinds(answer.warnings) == [WarningKind.UNKNOWN_CHARACTERS]
        assert set(answer.warnings[0].detail) == set("《鹰》与鸡")


@case("p15", breaks="nllb_predictor.pipeline.prepare:unknown_words", naive=lambda unit, unknown: [])
async def test_p15_an_unknown_word_is_copied_beside_its_neighbour() -> None:
    with pipeline(WordEngine(), "鹰3") as translating:
        answer = await translating.answer("I saw 鹰 and 31 birds of the air.")
        assert answer.text == "I saw 鹰 and 31 birds of the air."
        assert translating.engine.seen == ["I saw and birds of the air."]
        assert answer.warnings[0].detail == ("鹰", "3", "1")


@case("p16", breaks="nllb_predictor.text.unknown:Tally.see", naive=lambda self, read, unknown: None)
async def test_p16_unknown_characters_are_counted_for_the_engine() -> None:
    with pipeline(WordEngine(), "ἐᾖ") as translating:
        await translating.answer("ἐ ἀρχῇ ἦν ἐ")
        report = translating.service.unknown.report()
    assert report["counts"] == [{"character": "ἐ", "codePoint": "U+1F10", "count": 2}]
    assert (report["characters"], report["unknown"], report["rate"]) == (8, 2, 0.25)
    assert translating.service.unknown.rate == pytest.approx(0.25)


def backwards(words: Words, search: Search) -> list[Words]:
    return [words[::-1]]


def _nothing_put_in(unit: Unit, text: Written, typed: int = 0) -> Written:
    return text


@case("p17", breaks="nllb_predictor.pipeline.write:put_in", naive=_nothing_put_in)
async def test_p17_each_emoji_stays_whole_and_with_its_word() -> None:
    with pipeline(WordEngine(backwards)) as translating:
        answer = await translating.answer("Nice work 🎉 team 👩‍👩‍👧 of us 👍🏽")
        assert (answer.text, answer.warnings) == ("us of team 👩‍👩‍👧 work 🎉 Nice 👍🏽", ())


@case("p20", breaks="nllb_predictor.text.lines:_is_break", naive=lambda reading, match, kept: False)
@pytest.mark.parametrize(
    "text", ["Street\nTown\nPost code", "Street\r\nTown\r\n\r\nPost code\r\n", "\n One\u2028Two"]
)
async def test_p20_every_line_stays_a_line_with_its_own_break(text: str) -> None:
    with pipeline(WordEngine()) as translating:
        assert (await translating.answer(text)).text == text
        assert sorted(translating.engine.seen) == sorted(filter(None, map(str.strip, text.splitlines())))


def _each_line(text: str, kept: object = ()) -> Iterator[Reading]:
    return lines.lines(text)


@case("p20", breaks="nllb_predictor.text.lines:paragraphs", naive=_each_line)
async def test_p20_wrapped_lines_are_read_as_one_sentence() -> None:
    with pipeline(WordEngine()) as translating:
        text = "The men walked down to\r\nthe lake shore.\n\nThey sat."
        answer = await translating.answer(text, how(lines=Lines.JOIN))
        assert answer.text == "The men walked down to the lake shore.\n\nThey sat."
        assert sorted(translating.engine.seen) == ["The men walked down to the lake shore.", "They sat."]


DEAR = "Dear %1$s, {count} letters wait at Acme for %2$d days"
SPANS = ("%1$s", "{count}", "Acme", "%2$d")


def careless(words: Words, search: Search) -> list[Words]:
    """Spoils placeholders, and translates names."""
    return [[word.replace("%", "% ").replace("{", "{ ").replace("Acme", "Cima") for word in words]]


def _first(first: Found, second: Found, hypotheses: int) -> Found:
    return first


@case("p21", breaks="nllb_predictor.pipeline.guard:better_of", naive=_first)
async def test_p21_spoilt_placeholders_are_put_back_where_they_stood() -> None:
    with pipeline(WordEngine(careless)) as translating:
        answer = await translating.answer(DEAR, how(protected_terms=("Acme",)))
        assert (answer.text, answer.warnings) == (DEAR, ())
        assert len(translating.engine.searches) == 2


async def test_p21_what_the_model_copies_itself_is_not_touched() -> None:
    with pipeline(WordEngine(backwards)) as translating:
        answer = await translating.answer("Dear %s waits at Acme today", how(protected_terms=("Acme",)))
        assert (answer.text, len(translating.engine.searches)) == ("today Acme at waits %s Dear", 1)


@case("p21", breaks="nllb_predictor.pipeline.faults:lost_spans")
async def test_p21_a_span_that_comes_twice_is_told() -> None:
    with pipeline(WordEngine(lambda words, search: [[*words, "at", "Acme"]])) as translating:
        answer = await translating.answer("letters wait at Acme", how(protected_terms=("Acme",)))
        assert kinds(answer.warnings) == [WarningKind.PROTECTED_LOST]
        assert answer.warnings[0].detail == ("Acme",)


@case("p21", breaks="nllb_predictor.pipeline.cut:protected_spans", naive=lambda text, terms=(): [])
async def test_p21_markup_is_not_read_and_keeps_its_place_and_order() -> None:
    text = r"\p \v 3 In <b>the light</b> he \nd saw\nd* them\f + \ft a note \f*."
    with pipeline(WordEngine()) as translating:
        answer = await translating.answer(text)
        assert (answer.text, answer.warnings) == (text, ())
        assert translating.engine.seen == ["In the light he saw them."]


def foreign(words: Words, search: Search) -> list[Words]:
    return [["он", "пошёл", "домой", "вчера"], ["he", "went", "home", "late"]]


@case("p27", breaks="nllb_predictor.pipeline.faults:wrong_script")
async def test_p27_another_script_is_exchanged_for_a_hypothesis_in_the_right_one() -> None:
    with pipeline(WordEngine(foreign)) as translating:
        answer = await translating.answer("se fue a casa tarde")
        assert (answer.text, answer.warnings) == ("he went home late", ())
    with pipeline(WordEngine(lambda words, search: foreign(words, search)[:1])) as translating:
        assert kinds((await translating.answer("se fue a casa tarde")).warnings) == [WarningKind.WRONG_SCRIPT]


PREPARER = Preparer(WordTokens("ü9"), Languages(CODES, "eng_Latn", "spa_Latn"), 1024)
ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("ab Ü.!?\n\r\u2028{}<>%$\\fv1 9-*ü。「" + "🎉\u200d\ufe0f👩"),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)
ANY_OPTIONS = st.builds(
    Options,
    search=st.just(Search(1, 9)),
    split_sentences=st.booleans(),
    lines=st.sampled_from(Lines),
    copy_untranslatable=st.booleans(),
    protected_terms=st.lists(st.text(min_size=1, max_size=3).filter(str.strip), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(ANY_TEXT, ANY_OPTIONS, st.sampled_from(["", "x"]))
def test_the_parts_of_any_text_are_the_text(text: str, options: Options, prefix: str) -> None:
    [prepared] = PREPARER.prepare([Ask(text, prefix=prefix)], options)
    shown = [part.text if isinstance(part, Copied) else part.raw for part in prepared.parts]
    assert "".join(shown) == text
    assert [part.span.of(text) for part in prepared.parts] == shown


@settings(deadline=None)
@given(ANY_TEXT, ANY_OPTIONS)
def test_what_is_protected_survives_any_sentence_of_a_copying_model(text: str, options: Options) -> None:
    [prepared] = PREPARER.prepare([Ask(text)], options)
    engine = WordEngine()
    for unit in prepared.units:
        [row] = engine.run([unit.segment], options.search)
        for own in (unit, *PREPARER.reread([unit])):
            found = faults.judged(Found(own, tuple(written(WordTokens(), [Draft(own, row[0])]))))
            there = Counter(each.source for each in found.written[0].carried)
            lost = [each for each in own.protected if not each.read and there[each.span] != 1]
            assert lost == []


def test_sentences_keep_what_is_protected_in_them() -> None:
    text = "See <b>it</b> now. 🎉 Go {x} on."
    [prepared] = PREPARER.prepare([Ask(text)], how())
    inside = [[each.text for each in unit.protected] for unit in prepared.units]
    assert inside == [["<b>", "</b>"], ["{x}"]]
    assert [each.span.of(text) for each in protected_spans(text)] == ["<b>", "</b>", "🎉", "{x}"]


def test_a_digit_of_a_newer_unicode_than_pythons_is_no_fault() -> None:
    everything = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    values = Counter(str(unicodedata.digit(one)) for one in everything if unicodedata.category(one) == "Nd")
    assert faults.digits("".join(everything)) == values
    assert faults.digits("\U00011f51") == Counter()
