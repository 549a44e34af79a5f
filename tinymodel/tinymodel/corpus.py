"""Two SWORD texts in, parallel verses out: one file for training, one of the books that training never sees.

Why it exists: reading, cleaning and aligning in the order that each needs the other's result.
What it refuses to do: keep a doubtful pair.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tinymodel import clean
from tinymodel.align import Verse, align_book, lexicon_from_equal_numbers
from tinymodel.settings import Corpus, Places
from tinymodel.sword import raw_verses


@dataclass(frozen=True, slots=True)
class Pair:
    """One verse in both languages, numbered as the English text counts."""

    book: str
    chapter: int
    verse: int
    eng: str
    spa: str


def cleaned(raw: Iterable[Verse]) -> list[Verse]:
    """The verses of one text with plain text; those that are empty once cleaned are gone."""
    verses = []
    for verse in raw:
        text = clean.verse_text(verse.text)
        text = clean.without_acrostic(clean.without_notes_in_brackets(text))
        if text:
            verses.append(replace(verse, text=text))
    known = clean.lower_case_words([verse.text for verse in verses])
    return [
        replace(verse, text=clean.with_plain_capitals(verse.text, known)) if verse.number == 1 else verse
        for verse in verses
    ]


def paired(english: Sequence[Verse], spanish: Sequence[Verse]) -> list[Pair]:
    """Aligned verses of all books that both texts have, doubtful ones left out."""
    lexicon = lexicon_from_equal_numbers(english, spanish)
    english_books, spanish_books = _by_book(english), _by_book(spanish)
    pairs = []
    for book in english_books.keys() & spanish_books.keys():
        for left, right in align_book(english_books[book], spanish_books[book], lexicon):
            if clean.plausible_lengths(left.text, right.text):
                pairs.append(Pair(left.book, left.chapter, left.number, left.text, right.text))
    order = {book: place for place, book in enumerate(english_books)}
    return sorted(pairs, key=lambda pair: (order[pair.book], pair.chapter, pair.verse))


def split(pairs: Iterable[Pair], held_out: Sequence[str]) -> tuple[list[Pair], list[Pair]]:
    """(training, held out), by whole books."""
    training: list[Pair] = []
    rest: list[Pair] = []
    for pair in pairs:
        (rest if pair.book in held_out else training).append(pair)
    return training, rest


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps(
            {"book": p.book, "chapter": p.chapter, "verse": p.verse, "eng": p.eng, "spa": p.spa},
            ensure_ascii=False,
        )
        for p in pairs
    )
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_pairs(path: Path) -> list[Pair]:
    """The pairs that `write_pairs` wrote."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def build(settings: Corpus, places: Places) -> None:
    """Write the training pairs and the held-out pairs."""
    print("reading and cleaning both texts (about two minutes)", flush=True)
    english = cleaned(raw_verses(settings.english_module, settings.english_package))
    spanish = cleaned(raw_verses(settings.spanish_module, settings.spanish_package))
    print(f"{len(english)} English and {len(spanish)} Spanish verses; aligning", flush=True)
    training, held_out = split(paired(english, spanish), settings.held_out)
    write_pairs(places.pairs, training)
    write_pairs(places.held_out, held_out)
    print(f"{len(training)} pairs to train on, {len(held_out)} held out ({', '.join(settings.held_out)})")


def _by_book(verses: Iterable[Verse]) -> dict[str, list[Verse]]:
    books: defaultdict[str, list[Verse]] = defaultdict(list)
    for verse in verses:
        books[verse.book].append(verse)
    return dict(books)
