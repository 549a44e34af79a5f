"""Reads a SWORD module verse by verse, markup included.

Why it exists: `pysword` knows the file format and the verse systems. Its own cleaning of the markup glues words
together, so only the raw fragments are taken from it.

What it refuses to do: clean (see `clean`), or fetch a text; a missing one is named with its Debian package.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tinymodel.align import Verse
from tinymodel.errors import SourceTextMissing

SWORD_FOLDER = Path("/usr/share/sword")


def raw_verses(
    module: str, package: str, folder: Path = SWORD_FOLDER, books: Collection[str] | None = None
) -> Iterator[Verse]:
    """Every verse of `module` in the module's own count, `text` being OSIS markup; empty verses too.

    Books carry their OSIS names ("Gen", "2Thess"); `books` limits them. Raises SourceTextMissing.
    """
    bible = _open(module, package, folder)
    for testament in bible.get_structure().get_books().values():
        for book in testament:
            if books is not None and book.osis_name not in books:
                continue
            for chapter, length in enumerate(book.chapter_lengths, start=1):
                for number in range(1, length + 1):
                    yield Verse(book.osis_name, chapter, number, _markup(bible, book.name, chapter, number))


def _open(module: str, package: str, folder: Path) -> Any:
    from pysword.modules import SwordModules

    modules = SwordModules(str(folder))
    try:
        modules.parse_modules()
        return modules.get_bible_from_module(module)
    except (KeyError, OSError) as error:
        raise SourceTextMissing(
            f"SWORD text {module} is not installed in {folder}: apt-get install {package}"
        ) from error


def _markup(bible: Any, book: str, chapter: int, number: int) -> str:
    text: str = bible.get(books=[book], chapters=[chapter], verses=[number], clean=False)
    return text
