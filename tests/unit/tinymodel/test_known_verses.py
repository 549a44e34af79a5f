"""The installed texts, where they are installed: verses that a person has looked up."""

import re

import pytest

from tinymodel.align import Verse
from tinymodel.corpus import cleaned, paired, read_pairs
from tinymodel.settings import Corpus, Places
from tinymodel.sword import SWORD_FOLDER, raw_verses

CORPUS = Corpus()


def _installed() -> bool:
    found = {path.stem for path in (SWORD_FOLDER / "mods.d").glob("*.conf")}
    return {CORPUS.english_module, CORPUS.spanish_module} <= found


def test_the_held_out_verses_are_whole_books_and_at_least_two_hundred() -> None:
    pairs = read_pairs(Places().held_out)
    assert {pair.book for pair in pairs} == set(CORPUS.held_out)
    assert len(pairs) >= 200


def test_the_hebrew_count_of_jonah_two_is_aligned_with_the_english_one() -> None:
    verses = {(pair.book, pair.chapter, pair.verse): pair for pair in read_pairs(Places().held_out)}
    fish, vows = verses["Jonah", 1, 17], verses["Jonah", 2, 8]
    assert "huge fish" in fish.eng
    assert "gran pez" in fish.spa
    assert "vain idols" in vows.eng
    assert "vanidades ilusorias" in vows.spa


def test_held_out_verses_carry_neither_markup_nor_notes_nor_printed_capitals() -> None:
    for pair in read_pairs(Places().held_out):
        for text in (pair.eng, pair.spa):
            assert not set("<>[]{}") & set(text), text
            assert "  " not in text
            assert not re.match(r"\W*[^\W\d_]{2}", text) or not text.split()[0].isupper(), text


@pytest.mark.skipif(not _installed(), reason="needs the Debian packages sword-text-web and sword-text-sparv")
def test_known_verses_of_the_installed_texts_read_as_printed() -> None:
    wanted = {("Gen", 1, 1), ("Gen", 1, 2), ("Jonah", 1, 17), ("Jonah", 2, 1)}

    def read(module: str, package: str) -> list[Verse]:
        verses = raw_verses(module, package, books=("Gen", "Jonah"))
        return cleaned(verse for verse in verses if verse.reference in wanted)

    english = {v.reference: v.text for v in read(CORPUS.english_module, CORPUS.english_package)}
    spanish = {v.reference: v.text for v in read(CORPUS.spanish_module, CORPUS.spanish_package)}
    assert english["Gen", 1, 1] == "In the beginning, God created the heavens and the earth."
    assert spanish["Gen", 1, 1].endswith("el principio crió Dios los cielos y la tierra.")
    assert spanish["Jonah", 2, 1].startswith("Mas Jehová había prevenido un gran pez")
    assert ("Jonah", 1, 17) not in spanish


def test_a_pair_of_unlikely_lengths_is_dropped_after_alignment() -> None:
    english = [Verse("Ruth", 1, n, f"river bridge number{n}") for n in range(1, 9)]
    spanish = [Verse("Ruth", 1, n, f"río puente number{n}") for n in range(1, 8)]
    spanish.append(Verse("Ruth", 1, 8, "río puente number8 " + "y otra cosa más " * 10))
    assert [pair.verse for pair in paired(english, spanish)] == list(range(1, 8))
