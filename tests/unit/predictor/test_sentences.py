"""Lines and sentences: what is translated together, and what stands between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.text import lines
from nllb_predictor.text.reading import Reading
from nllb_predictor.text.sentences import sentences
from nllb_predictor.text.spans import Span


def split(text: str, code: str = "eng_Latn", kept: tuple[Span, ...] = ()) -> list[str]:
    return [each.text for each in sentences(Reading.of(text), code, kept)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("eng_Latn", ["The river rose.", "The bridge held.", "Nobody slept."]),
        ("eng_Latn", ["Dr. Smith saw Mt. Zion.", "He said: “Go now. Come back!”", "Then he slept."]),
        ("spa_Latn", ["¿Quién es?", "¡Él!", "El Sr. García vino."]),
        ("deu_Latn", ["Am 3. Oktober kam er.", "Er ging."]),
        ("hin_Deva", ["वह आया।", "वह गया।"]),
        ("amh_Ethi", ["እሱ መጣ።", "ሄደ።"]),
        ("urd_Arab", ["وہ آیا۔", "وہ گیا۔"]),
        ("khm_Khmr", ["គាត់មក។", "គាត់ទៅ។"]),
        ("sat_Olck", ["ᱩᱱᱤ ᱦᱮᱪ ᱮᱱᱟ᱾", "ᱩᱱᱤ ᱪᱟᱞᱟᱣ ᱮᱱᱟ᱾"]),
        ("xyz_Latn", ["Abc def.", "Ghi?", "Jkl!"]),
        ("eng_Latn", ["See v. 3 of the book.", "No. 5 is there."]),
        ("eng_Latn", ["one ends here. two goes on"]),
    ],
)
def test_sentences_of_many_languages(code: str, expected: list[str]) -> None:
    assert split(" ".join(expected), code) == expected


def test_sentences_without_spaces_between() -> None:
    assert split("天下。你好！走了。", "zho_Hans") == ["天下。", "你好！", "走了。"]


def test_no_cut_is_inside_of_a_protected_span() -> None:
    text = "He saw Acme Inc. Ltd today. She left."
    assert split(text, kept=(Span(7, 20),)) == ["He saw Acme Inc. Ltd today.", "She left."]


def test_long_lines_fall_into_all_their_sentences() -> None:
    assert split("The lamp is lit. " * 600) == ["The lamp is lit."] * 600


@pytest.mark.parametrize("words", [700, 1100, 2000])
def test_a_sentence_without_an_end_is_one_however_long_it_is(words: int) -> None:
    """Where the library's window ends is in the middle of a word as a rule."""
    long = ("Word " * words).strip()
    assert split(long) == [long]
    assert split(f"He came. {long}. She went.") == ["He came.", f"{long}.", "She went."]


@settings(deadline=None)
@given(
    st.text(st.one_of(st.sampled_from("ab .!?\n\r。។「」“”1"), st.characters(codec="utf-8"))),
    st.sampled_from(["eng_Latn", "khm_Khmr"]),
)
def test_sentences_are_places_of_the_line_in_order_and_nothing_but_white_space_is_between(
    text: str, code: str
) -> None:
    parts = sentences(Reading.of(text), code)
    spans = [part.place(0, len(part)) for part in parts]
    assert [span.of(text) for span in spans] == [part.text for part in parts]
    between = [
        Span(left, right)
        for left, right in zip(
            [0, *(s.end for s in spans)], [*(s.start for s in spans), len(text)], strict=True
        )
    ]
    assert all(not gap.of(text).strip() for gap in between)


def test_each_line_stands_alone_whatever_its_break_is() -> None:
    text = "one\r\ntwo\n\n three\u2028four"
    assert [each.text for each in lines.lines(text)] == ["one", "two", " three", "four"]


def test_wrapped_lines_are_one_and_an_empty_line_ends_a_paragraph() -> None:
    text = "The men\r\n  walked\nto the lake.\n \nThey sat."
    found = list(lines.paragraphs(text))
    assert [each.text for each in found] == ["The men walked to the lake.", "They sat."]
    assert found[0].place(8, 14).of(text) == "walked"


def test_wrapped_lines_of_scripts_without_spaces_get_none() -> None:
    assert [each.text for each in lines.paragraphs("起初\n神创造天地\nAmen\n阿门")] == [
        "起初神创造天地 Amen 阿门"
    ]
