"""Scripts of letters, and which of them a language code allows. The names are Unicode's, as `regex` knows them."""

from functools import cache

import regex

LETTER = regex.compile(r"\p{L}")

WRITTEN_WITH = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Hang": ("Hang", "Hani"),
    "Kore": ("Hang", "Hani"),
}
"""Codes of writing systems that are no script of Unicode's, or use more than one."""

UNSPACED = regex.compile(
    r"[\p{Script=Hani}\p{Script=Hira}\p{Script=Kana}\p{Script=Thai}\p{Script=Laoo}\p{Script=Khmr}"
    r"\p{Script=Mymr}\p{Script=Tibt}\p{Script=Java}\p{Script=Bopo}]"
)
"""A character of a script that writes no space between words."""


def has_letters(text: str) -> bool:
    """Whether there is anything to translate: digits, punctuation, symbols and emoji are the same in all languages."""
    return LETTER.search(text) is not None


@cache
def script_of(code: str) -> str:
    """The script part of a language code such as `spa_Latn`; empty where it has none."""
    return code.rpartition("_")[2] if "_" in code else ""


@cache
def _own_letters(script: str) -> "regex.Pattern[str] | None":
    """Letters of a script, and those that belong to no single one; None for a script that Unicode does not know."""
    names = "".join(rf"\p{{Script={name}}}" for name in WRITTEN_WITH.get(script, (script,)))
    try:
        return regex.compile(rf"(?=\p{{L}})[{names}\p{{Script=Common}}\p{{Script=Inherited}}]")
    except regex.error:
        return None


def foreign_share(text: str, code: str) -> float:
    """Share of a text's letters that are not of the script of a language code, from 0 to 1; 0 where nothing can be
    told."""
    letters = len(LETTER.findall(text))
    own = _own_letters(script_of(code))
    if not letters or own is None or not script_of(code):
        return 0.0
    return 1.0 - len(own.findall(text)) / letters


_SAYS_AS_MUCH = (
    (3.0, r"\p{Script=Hani}"),
    (2.0, r"\p{Script=Hang}"),
    (1.7, r"\p{Script=Hira}\p{Script=Kana}"),
    (1.5, r"\p{Script=Ethi}"),
    (1.25, r"\p{Script=Arab}\p{Script=Hebr}\p{Script=Syrc}\p{Script=Thaa}"),
)
"""How many letters of an alphabet with vowels one letter of a script stands for, about."""
_DENSE = tuple((weight - 1.0, regex.compile(rf"(?=\p{{L}})[{scripts}]")) for weight, scripts in _SAYS_AS_MUCH)
_ANY_DENSE = regex.compile("[" + "".join(scripts for _, scripts in _SAYS_AS_MUCH) + "]")
_LETTER_OR_MARK = regex.compile(r"[\p{L}\p{M}]")


def amount(text: str) -> float:
    """How much a text says, in letters of an alphabet with vowels: comparable between scripts, roughly."""
    letters = len(_LETTER_OR_MARK.findall(text))
    if _ANY_DENSE.search(text) is None:
        return letters
    return letters + sum(weight * len(pattern.findall(text)) for weight, pattern in _DENSE)
