"""Which token has which id, and which languages the model speaks: from the saved files, never from a class's defaults.

`tokenizer.json` is read as plain JSON here. That is on purpose a second way beside the `tokenizers` library, so that
the self-test can compare the two. Rows of the embedding beyond the last token get dummy names, since CTranslate2
wants a name for each row; a token without a row is refused with both sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nllb_predictor.convert.manifest import LanguageOrigin, Languages, SpecialIds
from nllb_predictor.convert.names import CONFIG_FILE, GENERATION_FILE, TOKENIZER_FILE
from nllb_predictor.errors import (
    BrokenConfig,
    LanguageNotInModel,
    LanguagesDisagree,
    UsageError,
    VocabularyMismatch,
)
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.text.tokenise import TokenizerConfig


@dataclass(frozen=True)
class Vocabulary:
    """All tokens by id."""

    tokens: tuple[str, ...]
    """Position = id. An id that no token has (a hole) carries a dummy name."""
    added: Mapping[str, int]
    """Added special tokens: roles and language codes."""

    @property
    def size(self) -> int:
        """Number of ids that the tokenizer can give out."""
        return len(self.tokens)

    def id(self, token: str) -> int:
        """Raises BrokenConfig if there is no such token."""
        try:
            return self._ids[token]
        except KeyError:
            raise BrokenConfig(f"{TOKENIZER_FILE} has no token {token!r}.") from None

    @property
    def _ids(self) -> dict[str, int]:
        ids = self.__dict__.get("_by_token")
        if ids is None:
            ids = {token: i for i, token in enumerate(self.tokens)}
            object.__setattr__(self, "_by_token", ids)
        return ids

    def for_rows(self, rows: int) -> list[str]:
        """One name for each embedding row. Raises VocabularyMismatch if there are fewer rows than tokens."""
        if rows < self.size:
            missing = ", ".join(repr(token) for token in self.tokens[rows : rows + 3])
            raise VocabularyMismatch(
                f"The tokenizer has {self.size} tokens but the embedding has {rows} rows; no row for {missing}"
                f"{' and others' if self.size - rows > 3 else ''}.",
                hint="The model was saved without resizing its embeddings.",
            )
        return [*self.tokens, *(f"madeupword{i}" for i in range(rows - self.size))]


def read_vocabulary(folder: Path) -> Vocabulary:
    """Tokens of `tokenizer.json`. Raises MissingFile, BrokenConfig and VocabularyMismatch."""
    document = read_json_object(folder / TOKENIZER_FILE)
    by_id: dict[int, str] = {}
    for token, number in _model_tokens(document):
        _give(by_id, number, token)
    added: dict[str, int] = {}
    for entry in document.get("added_tokens") or ():
        token, number = entry.get("content"), entry.get("id")
        if not isinstance(token, str) or type(number) is not int:
            raise BrokenConfig(f"{TOKENIZER_FILE}: an entry of added_tokens has no content or id.")
        _give(by_id, number, token)
        if entry.get("special"):
            added[token] = number
    if not by_id:
        raise BrokenConfig(f"{TOKENIZER_FILE} has no tokens.")
    return Vocabulary(_without_holes(by_id), added)


def _model_tokens(document: dict[str, Any]) -> list[tuple[str, int]]:
    """Pairs of the model's own vocabulary, for the two forms that the tokenizer library writes."""
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        return list(vocabulary.items())
    if isinstance(vocabulary, list):
        return [(entry[0], number) for number, entry in enumerate(vocabulary)]
    raise BrokenConfig(f"{TOKENIZER_FILE} has no model.vocab.")


def _give(by_id: dict[int, str], number: int, token: str) -> None:
    if type(number) is not int or number < 0:
        raise BrokenConfig(f"{TOKENIZER_FILE}: token {token!r} has the id {number!r}.")
    other = by_id.setdefault(number, token)
    if other != token:
        raise VocabularyMismatch(f"{TOKENIZER_FILE} gives the id {number} to {other!r} and to {token!r}.")


def _without_holes(by_id: dict[int, str]) -> tuple[str, ...]:
    size = max(by_id) + 1
    if size > 2 * len(by_id) + 1000:
        raise VocabularyMismatch(f"{TOKENIZER_FILE} has {len(by_id)} tokens but ids up to {size - 1}.")
    tokens = tuple(by_id.get(i, f"<hole{i}>") for i in range(size))
    if len(set(tokens)) != size:
        seen: set[str] = set()
        twice = next(token for token in tokens if token in seen or seen.add(token))  # type: ignore[func-returns-value]
        raise VocabularyMismatch(f"{TOKENIZER_FILE} gives two ids to {twice!r}.")
    return tokens


@dataclass(frozen=True)
class SpecialFacts:
    """Ids with a role and the languages, as the folder's files and the arguments name them."""

    special: SpecialIds
    languages: Languages


def special_facts(folder: Path, vocabulary: Vocabulary, asked: tuple[str | None, str | None]) -> SpecialFacts:
    """Resolve roles and the model's own pair; `asked` (source, target) goes before the files.

    Raises BrokenConfig, LanguagesDisagree, LanguageNotInModel and UsageError.
    """
    config = TokenizerConfig.from_folder(folder)
    generation = _optional(folder / GENERATION_FILE)
    network = _optional(folder / CONFIG_FILE)
    roles = set(config.roles.values())
    codes = {token: number for token, number in vocabulary.added.items() if token not in roles}
    languages = _languages(vocabulary, codes, asked, config, generation.get("forced_bos_token_id"))
    eos = vocabulary.id(config.roles["eos_token"])
    _require_same("eos_token_id", eos, network, generation)
    pad = vocabulary.id(config.roles["pad_token"])
    _require_same("pad_token_id", pad, network, generation)
    start = generation.get("decoder_start_token_id", network.get("decoder_start_token_id", eos))
    if type(start) is not int or not 0 <= start < vocabulary.size:
        raise BrokenConfig(f"decoder_start_token_id is {start!r}, which is no token.")
    special = SpecialIds(
        bos=vocabulary.id(config.roles["bos_token"]),
        pad=pad,
        eos=eos,
        unk=vocabulary.id(config.roles["unk_token"]),
        decoder_start=start,
        forced_bos=None if languages.target is None else codes[languages.target],
    )
    return SpecialFacts(special, languages)


def _languages(
    vocabulary: Vocabulary,
    codes: Mapping[str, int],
    asked: tuple[str | None, str | None],
    config: TokenizerConfig,
    forced: object,
) -> Languages:
    known = tuple(sorted(codes, key=codes.__getitem__))
    if not known:
        raise BrokenConfig(f"{TOKENIZER_FILE} has no language codes among its special tokens.")
    if any(asked):
        if not all(asked):
            raise UsageError("Give both --source-language and --target-language, or neither.")
        for code in asked:
            if code not in codes:
                raise LanguageNotInModel(
                    f"The model has no language code {code!r}; it has {len(known)} others."
                )
        return Languages(*asked, known, LanguageOrigin.ARGUMENTS)
    source, target, origin = config.source, config.target, LanguageOrigin.TOKENIZER_CONFIG
    if forced is not None:
        token = _forced_token(vocabulary, codes, forced)
        if target is not None and target != token:
            raise LanguagesDisagree(
                f"tokenizer_config.json says tgt_lang {target}, but generation_config.json forces {token}.",
                hint="Decide with --source-language and --target-language.",
            )
        if target is None:
            target, origin = token, LanguageOrigin.GENERATION_CONFIG
    # A source alone is the class's default in a base model's files, not a trained pair.
    if source is None or target is None:
        return Languages(None, None, known, LanguageOrigin.NONE)
    for code in (source, target):
        if code not in codes:
            raise LanguageNotInModel(
                f"The configuration names the language {code!r}, which is no token of the model."
            )
    return Languages(source, target, known, origin)


def _forced_token(vocabulary: Vocabulary, codes: Mapping[str, int], forced: object) -> str:
    if type(forced) is not int or not 0 <= forced < vocabulary.size:
        raise BrokenConfig(f"generation_config.json: forced_bos_token_id is {forced!r}, which is no token.")
    token = vocabulary.tokens[forced]
    if token not in codes:
        raise LanguagesDisagree(f"generation_config.json forces {token!r}, which is no language code.")
    return token


def _require_same(key: str, number: int, *files: dict[str, Any]) -> None:
    """The ids that the network was trained with must be the tokenizer's."""
    for file in files:
        stored = file.get(key)
        if isinstance(stored, int) and stored != number:
            raise VocabularyMismatch(
                f"A configuration says {key} {stored}, but the tokenizer's token has {number}."
            )


def _optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() else {}
