"""Which tokens a fixed pair needs, and the tokenizer that knows only them. No input or output here.

Most of an NLLB model's quarter of a million tokens belong to languages that a fine-tuned engine never reads or writes,
and scoring them all is the larger half of every decoding step. Kept are: what the pair's texts use, every special
token, the pair's language codes, and every single character of the pair's scripts, so that no word becomes unreadable
because it was not in the texts. It refuses to guess: nothing in a checkpoint tells what its texts use.

Of a BPE tokenizer also the pieces on the way to a kept piece are kept. Merges inside a piece's span depend on nothing
outside it, so a text whose pieces are all kept is cut exactly as before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from nllb_predictor.convert.vocabulary import Vocabulary

SPACE = "▁"
"""SentencePiece's mark of a word's beginning."""

SCRIPTS: dict[str, tuple[str, ...]] = {
    "Hans": ("Han", "Bopomofo"),
    "Hant": ("Han", "Bopomofo"),
    "Jpan": ("Han", "Hiragana", "Katakana"),
    "Kore": ("Hangul", "Han"),
}
"""Codes that stand for several of Unicode's scripts (ISO 15924); any other code is Unicode's own short name."""

SHARED_SCRIPTS = ("Common", "Inherited")
"""Digits, punctuation, symbols and combining marks."""


@dataclass(frozen=True)
class Need:
    """What must survive."""

    roles: frozenset[str]
    """Tokens with a role, such as `</s>`."""
    codes: frozenset[str]
    """Language codes; the scripts of these are the pair's scripts."""
    counts: Mapping[str, int]
    """How often the texts use each token."""
    minimum_count: int = 1


@dataclass(frozen=True)
class Choice:
    """Rows of the original vocabulary that stay, in their old order: the new id of `ids[i]` is `i`."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def new_ids(self) -> dict[int, int]:
        """New id by old id."""
        return {old: new for new, old in enumerate(self.ids)}


def choose(document: Mapping[str, Any], vocabulary: Vocabulary, need: Need) -> Choice:
    """The rows that stay. `document` is `tokenizer.json`, `vocabulary` the same by id."""
    added = {entry["content"]: bool(entry.get("special")) for entry in document.get("added_tokens") or ()}
    kept = {token for token, count in need.counts.items() if count >= need.minimum_count}
    kept |= need.roles | need.codes | {token for token, special in added.items() if not special}
    kept |= {token for token in vocabulary.tokens if token not in added and is_character(token, need.codes)}
    if isinstance(unknown := document["model"].get("unk_token"), str):
        kept.add(unknown)
    # A code that is not asked for goes, even where a text contains its letters.
    kept -= {token for token, special in added.items() if special} - need.roles - need.codes
    kept |= ways_to(kept - added.keys(), merges_of(document))
    ids = tuple(i for i, token in enumerate(vocabulary.tokens) if token in kept)
    dropped = tuple(token for token in vocabulary.tokens if token not in kept)
    return Choice(ids, tuple(vocabulary.tokens[i] for i in ids), dropped)


def is_character(token: str, codes: Iterable[str]) -> bool:
    """Whether a piece is one character, alone or at a word's beginning, of one of the codes' scripts or of none."""
    character = token.removeprefix(SPACE) or token
    return len(character) == 1 and (
        character == SPACE or bool(_pattern(frozenset(code.rpartition("_")[2] for code in codes))(character))
    )


_PATTERNS: dict[frozenset[str], Any] = {}


def _pattern(scripts: frozenset[str]) -> Any:
    """Matches a character of these scripts; a code that Unicode does not know adds none."""
    if scripts not in _PATTERNS:
        names = [name for code in sorted(scripts) for name in SCRIPTS.get(code, (code,)) if _known(name)]
        parts = "".join(f"\\p{{Script={name}}}" for name in (*SHARED_SCRIPTS, *names))
        _PATTERNS[scripts] = regex.compile(f"[{parts}]").fullmatch
    return _PATTERNS[scripts]


def _known(name: str) -> bool:
    try:
        regex.compile(f"\\p{{Script={name}}}")
    except regex.error:
        return False
    return True


def merges_of(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A BPE model's merges in order, for both forms in which they are written; none for other kinds."""
    merges = document["model"].get("merges") or ()
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in merges)
    return [(left, right) for left, right in pairs]


def ways_to(tokens: Iterable[str], merges: Sequence[tuple[str, str]]) -> set[str]:
    """Every piece that merging makes on its way to each token, characters included."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    made: set[str] = set()
    if not ranks:
        return made
    for token in tokens:
        pieces = list(token)
        made.update(pieces)
        while len(pieces) > 1:
            places = range(len(pieces) - 1)
            best = min(places, key=lambda i: ranks.get((pieces[i], pieces[i + 1]), len(ranks)))
            if (pieces[best], pieces[best + 1]) not in ranks:
                break
            pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
            made.add(pieces[best])
    return made


def trimmed_tokenizer(document: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """`tokenizer.json` with the kept tokens and their new ids. The document is not changed."""
    kept = {token: new for new, token in enumerate(choice.tokens)}
    entries = [entry for entry in document.get("added_tokens") or () if entry["content"] in kept]
    return {
        **document,
        "added_tokens": [{**entry, "id": kept[entry["content"]]} for entry in entries],
        "model": _model(document["model"], kept, merges_of(document)),
        "post_processor": _post_processor(document.get("post_processor"), choice.new_ids),
    }


def _model(
    model: Mapping[str, Any], kept: Mapping[str, int], merges: list[tuple[str, str]]
) -> dict[str, Any]:
    if isinstance(model["vocab"], list):
        # Unigram: ids are positions, and scores stay what they are.
        pieces = [entry for entry in model["vocab"] if entry[0] in kept]
        unknown = model.get("unk_id")
        name = None if unknown is None else model["vocab"][unknown][0]
        at = next((i for i, entry in enumerate(pieces) if entry[0] == name), None)
        return {**model, "vocab": pieces, "unk_id": at}
    ids = {token: kept[token] for token in model["vocab"] if token in kept}
    pairs = [[left, right] for left, right in merges if left in ids and right in ids and left + right in ids]
    return {**model, "vocab": ids, "merges": pairs}


def _post_processor(stored: Any, new_ids: Mapping[int, int]) -> Any:
    """The template with new ids; none where it names a token that is gone. Serving places codes itself."""
    if not isinstance(stored, dict) or "special_tokens" not in stored:
        return stored if stored is None or "ids" not in str(stored) else None
    special = stored["special_tokens"]
    if any(old not in new_ids for entry in special.values() for old in entry["ids"]):
        return None
    renumbered = {
        name: {**entry, "ids": [new_ids[old] for old in entry["ids"]]} for name, entry in special.items()
    }
    return {**stored, "special_tokens": renumbered}


ID_KEYS = (
    "bos_token_id",
    "pad_token_id",
    "eos_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
"""Keys of `config.json` and `generation_config.json` that hold token ids."""


def renumbered(config: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """A network's or generation's configuration with new ids; one whose token is gone is left out."""
    new_ids, result = choice.new_ids, dict(config)
    for key in ID_KEYS:
        old = config.get(key)
        if isinstance(old, int) and not isinstance(old, bool):
            result.pop(key)
            if old in new_ids:
                result[key] = new_ids[old]
    if "vocab_size" in config:
        result["vocab_size"] = len(choice.ids)
    # Lists of ids that only training's generation used.
    for key in ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "forced_decoder_ids"):
        result.pop(key, None)
    return result


def only_kept(config: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """A tokenizer's configuration or map of special tokens without the tokens that are gone."""
    kept = {token: new for new, token in enumerate(choice.tokens)}
    result = dict(config)
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(config.get(key), list):
            result[key] = [each for each in config[key] if _content(each) in kept]
    if isinstance(decoder := config.get("added_tokens_decoder"), dict):
        result["added_tokens_decoder"] = {
            str(kept[_content(entry)]): entry for entry in decoder.values() if _content(entry) in kept
        }
    return result


def _content(token: Any) -> str:
    return str(token.get("content")) if isinstance(token, dict) else str(token)


def unseen_share(counts: Counter[str]) -> float:
    """Expected share of pieces in further text of the same kind that these texts never used (Good and Turing): pieces
    seen once, divided by all."""
    total = counts.total()
    return sum(1 for count in counts.values() if count == 1) / total if total else 1.0
