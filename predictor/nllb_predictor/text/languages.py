"""Language tags to NLLB codes, as Serval resolves them, so that a client's tag means here what it meant in training.

Two steps. `resolve` is Serval's rule, tag in, code out, without knowing any engine. `Languages` belongs to one
engine: it takes a tag that is a code of the engine as it is, resolves every other one, and refuses what the engine
has no token for, with near matches. Nothing is guessed: case is kept as given, a language that has no default script
gets none, and an unknown pair of language and script is an error, since a wrong target code would still translate,
into the wrong script.

Tables (written by scripts/make-language-tables): 202 codes of the NLLB-200 tokenizer, two-letter tags with their
ISO 639-3 codes, default scripts. Serval takes the last from a live file of SIL; the shipped table agrees with it on
every tag of the published examples and stands in for the rest.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib import resources

from nllb_predictor.errors import BadRequest, LanguageNeeded, PairNotServed, UnknownLanguage

TAG = re.compile(r"([A-Za-z]{2,8})(?:[-_]([A-Za-z]{4}))?")
"""Searched for, not matched: the rule takes the first run of letters wherever it stands."""

PLAIN = re.compile(r"[A-Za-z0-9_-]+")
"""What a tag without a known script must look like to be taken as a code of its own."""

SUBSTITUTES = {
    "ar": "arb",
    "ms": "zsm",
    "lv": "lvs",
    "ne": "npi",
    "sw": "swh",
    "cmn": "zh",
    "pes": "fa-IR",
}
"""Macrolanguages (and two that go the other way) as Serval replaces them; case-sensitive."""

NOT_IN_TOKENIZER = frozenset({"sat_Olck", "arb_Latn", "min_Arab"})
"""On Serval's list of native codes although the NLLB-200 tokenizer lacks them."""

NOT_ON_LIST = frozenset({"sat_Beng"})
"""In the tokenizer although Serval's list lacks it."""

MAX_TAG = 64
"""Characters; a longer text is no language tag, and must not reach messages or the near-match search."""

NEAR_MATCHES = 3


class Support(Enum):
    """How far the base model knows a code, in Serval's words."""

    LANGUAGE_AND_SCRIPT = "LanguageAndScript"
    ONLY_SCRIPT = "OnlyScript"
    NONE = "None"


@dataclass(frozen=True)
class Resolved:
    """A code and how native it is to the base model."""

    code: str
    support: Support


@dataclass(frozen=True)
class LanguagePair:
    """Source and target code; requests of one pair can share a batch."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} to {self.target}"


@cache
def _table(name: str) -> tuple[tuple[str, ...], ...]:
    text = resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8")
    return tuple(tuple(line.split("\t")) for line in text.splitlines() if line)


@cache
def nllb_codes() -> tuple[str, ...]:
    """The 202 language codes of the NLLB-200 tokenizer, in its order."""
    return tuple(row[0] for row in _table("nllb_codes.tsv"))


@cache
def native_codes() -> frozenset[str]:
    """The 204 codes of Serval's own list, which differs from the tokenizer's in four."""
    return (frozenset(nllb_codes()) | NOT_IN_TOKENIZER) - NOT_ON_LIST


@cache
def native_scripts() -> frozenset[str]:
    """The 29 scripts of those codes."""
    return frozenset(code.rpartition("_")[2] for code in native_codes())


@cache
def _long_codes() -> dict[str, str]:
    return {row[0]: row[1] for row in _table("iso_pairs.tsv")} | {"qaa": ""}


@cache
def _short_tags() -> dict[str, str]:
    return {row[1]: row[0] for row in _table("iso_pairs.tsv")}


@cache
def short_tag(code: str) -> str:
    """The two-letter tag of a code such as `spa_Latn`; the three letters where there is none."""
    long = code.partition("_")[0]
    substituted = {after: before for before, after in SUBSTITUTES.items() if len(before) == 2}
    return "fa" if long == "pes" else substituted.get(long) or _short_tags().get(long, long)


@cache
def _default_scripts() -> dict[str, str]:
    return {row[0]: row[1] for row in _table("default_scripts.tsv")}


@lru_cache(maxsize=4096)
def resolve(tag: str) -> Resolved:
    """Serval's code for a tag. ValueError where the text is no tag at all.

    Known quirks are kept: case matters for defaults (`EN` stays `EN`, `ENG` becomes `eng_Latn`), an underscore hides
    a region (`zh_TW` is `zho_Hans`), a variant of four letters or more is read as a script (`ca-valencia` is
    `cat_vale`), and private tags can collapse (`qaa-Latn-x-kal` is `_Latn`).
    """
    found = TAG.search(tag)
    if found:
        code = _from_parts(tag, found.group(1), found.group(2))
        if code is not None:
            return Resolved(code, _support(code))
    if not PLAIN.fullmatch(tag):
        raise ValueError(f"not a language tag: {tag!r}")
    return Resolved(tag, _support(tag))


def _from_parts(tag: str, language: str, script: str | None) -> str | None:
    """Code of a language with its given or default script; None where no script is known."""
    subtag = _short_tags().get(language.lower(), language)
    subtag = SUBSTITUTES.get(subtag, subtag)
    # Some substitutes are three-letter codes and some (fa-IR) no language at all; neither is in the table.
    long = _long_codes().get(subtag.lower(), subtag if subtag.isalpha() and subtag != language else language)
    script = script or _default_scripts().get(tag) or _default_scripts().get(subtag)
    if script is None:
        return None
    return f"{long}_{'Hang' if script == 'Kore' else script}"


def _support(code: str) -> Support:
    script = code.rpartition("_")[2]
    if script not in native_scripts():
        return Support.NONE
    return Support.LANGUAGE_AND_SCRIPT if code in native_codes() else Support.ONLY_SCRIPT


@dataclass(frozen=True)
class Languages:
    """What one engine understands.

    `codes` are the language tokens of its tokenizer; `source` and `target` its trained pair, None for a base model;
    `any_pair` lifts the limit of a trained pair.
    """

    codes: frozenset[str]
    source: str | None = None
    target: str | None = None
    any_pair: bool = False

    def pair(self, source: str | None, target: str | None) -> LanguagePair:
        """The pair that a request means; None stands for the engine's own. Raises UnknownLanguage, LanguageNeeded
        and PairNotServed, each with the field at fault."""
        asked = LanguagePair(
            self._code(source, self.source, "source_language"),
            self._code(target, self.target, "target_language"),
        )
        if self.any_pair or self.source is None or self.target is None:
            return asked
        if asked != LanguagePair(self.source, self.target):
            field = "source_language" if asked.source != self.source else "target_language"
            raise PairNotServed(
                f"This engine translates {self.source} to {self.target}, not {asked}.",
                field=field,
                hint="Leave both languages out; SERVAL_LIVE_ALLOW_ANY_PAIR lets an engine answer untrained pairs.",
            )
        return asked

    def _code(self, tag: str | None, default: str | None, field: str) -> str:
        if tag is None:
            if default is None:
                raise LanguageNeeded(
                    f"This engine has no {field.replace('_', ' ')} of its own.",
                    field=field,
                    hint=f"Send {field} as a BCP-47 tag (es) or a Flores-200 code (spa_Latn).",
                )
            return default
        if tag in self.codes:
            return tag
        if len(tag) > MAX_TAG:
            raise BadRequest(f"A language tag has at most {MAX_TAG} characters, not {len(tag)}.", field=field)
        try:
            code = resolve(tag).code
        except ValueError:
            code = tag
        if code not in self.codes:
            raise _unknown(tag, code, self.codes, field)
        return code


def near_matches(code: str, codes: Iterable[str]) -> list[str]:
    """At most three codes that were probably meant: equal but for case, of the same language, or spelt alike."""
    known = sorted(codes)
    lower = code.lower()
    same = [each for each in known if each.lower() == lower]
    language = lower.partition("_")[0].partition("-")[0][:3]
    related = [each for each in known if language and each.lower().partition("_")[0] == language]
    alike = difflib.get_close_matches(lower, [each.lower() for each in known], n=NEAR_MATCHES, cutoff=0.6)
    spelt = [each for near in alike for each in known if each.lower() == near]
    return list(dict.fromkeys([*same, *related, *spelt]))[:NEAR_MATCHES]


def _unknown(tag: str, code: str, codes: frozenset[str], field: str) -> UnknownLanguage:
    shown = f"'{tag}'" if code == tag else f"'{tag}' (code {code})"
    near = near_matches(code, codes)
    hint = (
        f"Near matches: {', '.join(near)}."
        if near
        else f"It knows {len(codes)} codes, such as {min(codes, default='none')}."
    )
    return UnknownLanguage(f"This engine does not know the language {shown}.", field=field, hint=hint)
