"""Which verse belongs to which, on an invented book in two languages of ten words each."""

from tinymodel.align import Lexicon, Verse, align_book, lexicon_from_equal_numbers, words

ENGLISH = (
    "river bridge",
    "bridge baker",
    "baker bread",
    "bread night",
    "night lamp",
    "lamp river",
    "salt road",
)
SPANISH = (
    "río puente",
    "puente panadero",
    "panadero pan",
    "pan noche",
    "noche lámpara",
    "lámpara río",
    "sal camino",
)


def book(texts: tuple[str, ...], name: str = "Book", first: int = 1) -> list[Verse]:
    return [Verse(name, 1, first + place, text) for place, text in enumerate(texts)]


def lexicon() -> Lexicon:
    return Lexicon((words(e), words(s)) for e, s in zip(ENGLISH * 2, SPANISH * 2, strict=True))


def aligned(english: list[Verse], spanish: list[Verse]) -> list[tuple[str, str]]:
    return [(left.text, right.text) for left, right in align_book(english, spanish, lexicon())]


def test_equal_counts_pair_by_number() -> None:
    assert aligned(book(ENGLISH), book(SPANISH)) == list(zip(ENGLISH, SPANISH, strict=True))


def test_a_count_that_is_off_by_one_is_followed() -> None:
    shifted = book(("sin pareja alguna", *SPANISH))
    assert aligned(book(ENGLISH), shifted) == list(zip(ENGLISH, SPANISH, strict=True))


def test_a_verse_that_one_side_lacks_is_left_out() -> None:
    spanish = book(SPANISH)
    del spanish[3]
    expected = [pair for place, pair in enumerate(zip(ENGLISH, SPANISH, strict=True)) if place != 3]
    assert aligned(book(ENGLISH), spanish) == expected


def test_verses_without_a_word_in_common_are_no_pair_unless_their_numbers_agree() -> None:
    strangers = book(("nada que ver",), first=40)
    assert aligned(book(("river bridge",)), strangers) == []


def test_support_is_high_for_translations_and_low_for_others() -> None:
    known = lexicon()
    assert known.support(words("river bridge"), words("río puente")) > 0.6
    assert known.support(words("river bridge"), words("sal camino")) == 0.0


def test_the_lexicon_is_learnt_from_verses_with_the_same_number_only() -> None:
    elsewhere = [Verse("Book", 2, verse.number, verse.text) for verse in book(SPANISH)]
    learnt = lexicon_from_equal_numbers(book(ENGLISH), elsewhere)
    assert learnt.support(words("river bridge"), words("río puente")) == 0.0
