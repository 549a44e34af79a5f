"""Language tags to NLLB codes, by the rules that Serval applies when it trains.

A second, independent writing of the rules: the predictor has its own, and tests hold the two together. The data is a
small part of what Serval downloads, enough for the tags that the tests speak of.
"""

import re
from dataclasses import dataclass
from enum import Enum

from tests.support.serval import language_data as data

TAG = re.compile(r"(?P<language>[A-Za-z]{2,8})(?:[-_](?P<script>[A-Za-z]{4}))?")
PLAIN = re.compile(r"[A-Za-z0-9_-]+")

SUBSTITUTES = {
    "ar": "arb", "ms": "zsm", "lv": "lvs", "ne": "npi", "sw": "swh", "cmn": "zh", "pes": "fa-IR",
}  # fmt: skip
"""Case-sensitive. `fa-IR` is no language: it changes only where the default script is looked up."""


class Support(Enum):
    """How much of a code the base model knows."""

    LANGUAGE_AND_SCRIPT = "native"
    ONLY_SCRIPT = "script"
    NONE = "none"


class InvalidTag(ValueError):
    """The text can be no tag at all."""


@dataclass(frozen=True)
class Resolved:
    """A tag's NLLB code (or the tag itself where no script is known) and the base model's support for it."""

    code: str
    support: Support


def resolve(tag: str) -> Resolved:
    """The code for a tag. Raises InvalidTag where nothing fits and characters other than [A-Za-z0-9_-] occur."""
    code = _code(tag)
    if code is None:
        if not PLAIN.fullmatch(tag):
            raise InvalidTag(f"'{tag}' is not a valid language tag.")
        code = tag
    return Resolved(code, _support(code))


def _code(tag: str) -> str | None:
    match = TAG.search(tag)
    if match is None:
        return None
    language, script = match["language"], match["script"]
    subtag = data.SUBTAG_OF_ISO3.get(language.lower(), language)
    subtag = SUBSTITUTES.get(subtag, subtag)
    iso = data.ISO3_OF_SUBTAG.get(subtag.lower())
    if iso is not None:
        language = iso
    script = script or data.DEFAULT_SCRIPTS.get(tag) or data.DEFAULT_SCRIPTS.get(subtag)
    if script is None:
        return None
    return f"{language}_{'Hang' if script == 'Kore' else script}"


def _support(code: str) -> Support:
    script = code.rpartition("_")[2] if "_" in code else None
    if script not in data.SCRIPTS:
        return Support.NONE
    return Support.LANGUAGE_AND_SCRIPT if code in data.FLORES_CODES else Support.ONLY_SCRIPT
