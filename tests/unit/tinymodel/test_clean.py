"""Verse markup to running text. The strings are invented but built like the two modules' markup."""

import pytest

from tinymodel import clean


def test_a_footnote_between_two_words_leaves_the_space_it_stood_for() -> None:
    markup = '<w lemma="strong:H0430">God</w><note placement="foot">Hebrew: Elohim.</note><w>created</w> <w>light</w>.'
    assert clean.verse_text(markup) == "God created light."


def test_a_footnote_before_a_mark_leaves_no_space() -> None:
    markup = "<w>the lake</w><note>Some copies: sea.</note>, <w>and</w> <w>rowed</w><note>hard</note>."
    assert clean.verse_text(markup) == "the lake, and rowed."


def test_a_footnote_behind_a_comma_does_not_glue_the_next_word() -> None:
    assert clean.verse_text("<w>Anna</w>,<note>a name</note><w>the</w> <w>baker</w>") == "Anna, the baker"


def test_a_footnote_with_a_reading_of_its_own_goes_as_a_whole() -> None:
    markup = "Stay<note>TR adds <rdg type='alternate'>“here”</rdg></note> awake."
    assert clean.verse_text(markup) == "Stay awake."


def test_cross_references_go() -> None:
    assert clean.verse_text(
        'It is late.<note type="crossReference"> <reference>Isaiah 1:1</reference> </note>'
    ) == ("It is late.")


@pytest.mark.parametrize(
    "break_tag", ['<l level="1" sID="g1"/>', "<lb/>", '<div eID="g2" type="x-p"/>', "<lg/>"]
)
def test_a_line_break_is_a_space(break_tag: str) -> None:
    assert clean.verse_text(f"Sing a new song.{break_tag}Sing it loud.") == "Sing a new song. Sing it loud."


def test_a_psalm_title_belongs_to_the_verse_and_a_printed_heading_does_not() -> None:
    psalm = '<title canonical="true" type="psalm">A Psalm by Anna.</title><l/>I sing.'
    assert clean.verse_text(psalm) == "A Psalm by Anna. I sing."
    assert clean.verse_text('<title type="main">Book One</title>I sing.') == "I sing."


def test_words_marked_without_a_space_are_parted() -> None:
    markup = "<w>hay allí</w><transChange type='added'>también</transChange><w>agua</w>"
    assert clean.verse_text(markup) == "hay allí también agua"


def test_a_spanish_object_pronoun_stays_with_its_verb() -> None:
    assert (
        clean.verse_text("<w>sáca</w><transChange type='added'>lo</transChange> <w>fuera</w>")
        == "sácalo fuera"
    )


def test_words_that_the_source_glued_are_parted_at_the_inner_capital() -> None:
    assert clean.verse_text("<w>oyéndoloAna</w>, <w>vino</w>") == "oyéndolo Ana, vino"


def test_entities_become_characters() -> None:
    assert clean.verse_text("<w>salt</w> &amp; <w>bread</w>") == "salt & bread"


def test_a_verse_of_notes_alone_is_empty() -> None:
    assert clean.verse_text('<div type="x-p"/><note placement="foot">TR adds a verse.</note>') == ""


def test_bracketed_notes_and_lone_brackets_go() -> None:
    assert (
        clean.without_notes_in_brackets("He left [so the Greek text says], and slept.")
        == "He left, and slept."
    )
    assert clean.without_notes_in_brackets("[He slept.") == "He slept."


@pytest.mark.parametrize("text", ["BETH Where is he?", "BETH. Where is he?", "SIN AND SHIN Where is he?"])
def test_the_letter_over_a_stanza_goes(text: str) -> None:
    assert clean.without_acrostic(text) == "Where is he?"


def test_words_that_only_begin_like_a_letter_stay() -> None:
    assert clean.without_acrostic("HEAR me.") == "HEAR me."


@pytest.mark.parametrize(
    ("printed", "plain"),
    [
        ("EN el principio", "En el principio"),
        ("Y ACONTECIÓ en los días", "Y aconteció en los días"),
        ("Y JEHOVÁ visitó", "Y Jehová visitó"),
        ("Salmo de Ana. TEN piedad", "Salmo de Ana. Ten piedad"),
        ("¿HASTA cuándo?", "¿Hasta cuándo?"),
        ("LLEGARON, pues, dos", "Llegaron, pues, dos"),
        ("A tarde", "A tarde"),
    ],
)
def test_printed_capitals_are_undone_and_names_keep_their_first(printed: str, plain: str) -> None:
    known = {"en", "aconteció", "ten", "hasta", "llegaron"}
    assert clean.with_plain_capitals(printed, known) == plain


def test_known_lower_case_words_come_from_the_texts() -> None:
    assert clean.lower_case_words(["Y aconteció QUE vino", "Ana2 vino"]) == {"aconteció", "vino"}


@pytest.mark.parametrize(
    ("english", "spanish", "plausible"),
    [
        ("Jesus wept.", "Y lloró Jesús.", True),
        ("a" * 100, "b" * 150, True),
        ("a" * 100, "b" * 250, False),
        ("a" * 250, "b" * 100, False),
        ("", "algo", False),
    ],
)
def test_lengths_that_no_translation_explains_are_told(english: str, spanish: str, plausible: bool) -> None:
    assert clean.plausible_lengths(english, spanish) is plausible
