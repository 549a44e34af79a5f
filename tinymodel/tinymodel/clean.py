"""From the markup of one SWORD verse to the text that a reader would see.

Why it exists: readers of SWORD modules drop a footnote together with the space that it stood for ("God<note/>created"
becomes "Godcreated"), print psalm titles in one language and not in the other, and leave the printer's capitals at the
start of each chapter ("EN el principio"). A small model would learn all of it.

What it refuses to do: read files, and decide which verses belong together (see `align`). All functions are pure.
"""

import html
import re
from collections.abc import Collection

# Content that is no part of the verse: footnotes, cross references, headings of the printed edition.
_NOTE = re.compile(r"<note\b[^>]*/>|<note\b[^>]*>.*?</note>", re.DOTALL)
_HEADING = re.compile(r'<title\b(?![^>]*canonical="true")[^>]*>.*?</title>', re.DOTALL)
_ACROSTIC_TITLE = re.compile(r"<title\b[^>]*acrostic[^>]*>.*?</title>", re.DOTALL)

# Markup that stands for a line break on paper, so for a space in running text.
_BREAK = re.compile(r"</?(?:title|lb|lg|l|div|p|item|list|chapter|speaker)\b[^>]*>")

# Two marked words without a space between them. Spanish object pronouns are the exception: the editors mark the
# pronoun of "sácalo" as an addition of its own.
_PRONOUNS = "me|te|se|lo|la|los|las|le|les|nos|os"
_GLUED = re.compile(rf"(</(?:w|transChange)>)(<(?:w|transChange)\b[^>]*>)(?!(?:{_PRONOUNS})<)")

_TAG = re.compile(r"<[^>]*>")
_SPACES = re.compile(r"\s+")
_SPACE_BEFORE_MARK = re.compile(r" +([,.;:!?”’)\]])")
_SPACE_AFTER_OPENING = re.compile(r"([“‘(\[¡¿]) +")
_BRACKETED = re.compile(r"\[[^\[\]]*\]")

# A word that still carries its neighbour: a capital inside a word of lower-case letters.
_INNER_CAPITAL = re.compile(r"(?<=[a-záéíóúñü])(?=[A-ZÁÉÍÓÚÑ][a-záéíóúñü])")

_HEBREW_LETTERS = (
    "ALEPH|BETH|GIMEL|DALETH|HE|VAU|VAV|WAW|ZAIN|ZAYIN|CHETH|HETH|TETH|JOD|YODH|CAPH|KAPH|LAMED|MEM|NUN|SAMECH|"
    "SAMEKH|AIN|AYIN|PE|TSADDE|TZADDI|TZADHE|COPH|KOPH|QOPH|RESH|SCHIN|SIN AND SHIN|SIN|SHIN|TAU|TAV"
)
_ACROSTIC = re.compile(rf"^(?:{_HEBREW_LETTERS})\b[.:]? +")

_UPPER_WORD = re.compile(r"[A-ZÁÉÍÓÚÑÜ]{2,}(?![a-záéíóúñü])")
_SENTENCE_START = re.compile(r"(?:^|[.!?:] ?)[¡¿“‘\"'( ]*$")


def verse_text(markup: str) -> str:
    """The running text of one verse. `markup` is a fragment of OSIS as a SWORD module stores it, tags unbalanced."""
    text = _NOTE.sub(" ", markup)
    text = _ACROSTIC_TITLE.sub(" ", _HEADING.sub(" ", text))
    text = _BREAK.sub(" ", text)
    text = _GLUED.sub(r"\1 \2", text)
    text = html.unescape(_TAG.sub("", text))
    return tidy(split_glued(text))


def split_glued(text: str) -> str:
    """Part words that the source itself has written together ("oyéndoloJesús"); names like "McX" do not occur."""
    return _INNER_CAPITAL.sub(" ", text)


def tidy(text: str) -> str:
    """Single spaces, none before a closing mark, none after an opening one."""
    text = _SPACES.sub(" ", text).strip()
    return _SPACE_AFTER_OPENING.sub(r"\1", _SPACE_BEFORE_MARK.sub(r"\1", text))


def without_notes_in_brackets(text: str) -> str:
    """Drop "[…]", which marks an editor's words or another text's addition; a bracket without a partner goes alone."""
    text = _BRACKETED.sub(" ", text)
    return tidy(text.replace("[", " ").replace("]", " "))


def without_acrostic(text: str) -> str:
    """Drop the Hebrew letter that heads a stanza ("ALEPH Blessed are …")."""
    return _ACROSTIC.sub("", text)


def with_plain_capitals(text: str, known_lower: Collection[str]) -> str:
    """Undo the printer's capitals of a chapter's first words: "EN el principio" becomes "En el principio".

    A word at the start of a sentence keeps its first capital. Any other is lowered if the corpus knows its lower-case
    form (`known_lower`), else it is taken for a name and keeps its first capital ("Y JEHOVÁ" becomes "Y Jehová").
    """

    def plain(match: re.Match[str]) -> str:
        word = match.group(0)
        if _SENTENCE_START.search(text[: match.start()]) or word.lower() not in known_lower:
            return word[0] + word[1:].lower()
        return word.lower()

    return _UPPER_WORD.sub(plain, text)


def lower_case_words(texts: Collection[str]) -> set[str]:
    """All words that occur in lower case somewhere in `texts`."""
    return {word for text in texts for word in re.findall(r"[^\W\d_]+", text) if word.islower()}


def plausible_lengths(english: str, spanish: str) -> bool:
    """Whether one text can be the translation of the other as a whole, judged by length alone.

    Verses that hold a neighbour's words too, or only a part of their own, have lengths that no translation explains.
    The bounds are wide for short verses, where one name makes the difference.
    """
    slack = 12
    short, long = sorted((len(english), len(spanish)))
    return short > 0 and long <= 1.8 * short + slack
