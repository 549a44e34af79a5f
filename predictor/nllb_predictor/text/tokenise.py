"""Text to the token strings that CTranslate2 takes, and back.

`tokenizer.json` is the only authority: Serval adds letters and language codes to it that the SentencePiece file
beside it does not know. The stored post-processor is not used, because training leaves it in target mode; the
language code and `</s>` are placed here, in the order that the folder's configuration names. Tokenizing always goes
through `encode_batch`, which releases the GIL; `encode` does not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import tokenizers

from nllb_predictor.convert.manifest import TokenOrder
from nllb_predictor.convert.names import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from nllb_predictor.errors import BrokenConfig, LanguageNotInModel
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.text.lexicon import Lexicon
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.spans import Span

T = TypeVar("T")

FEW = 8
"""Texts that are tokenized one after the other."""

WORD_START = "▁"
"""How a piece says that a word begins with it."""

_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "cls_token", "sep_token")
_DEFAULT_ROLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}


@dataclass(frozen=True)
class Encoded:
    """A text as the model reads it, and where each of its tokens stands in the text that was tokenized: in order, and
    without white space around. Code and end mark stand nowhere (None); tokens that are made of one character have the
    same span."""

    tokens: tuple[str, ...]
    spans: tuple[Span | None, ...]


@dataclass(frozen=True)
class Decoded:
    """The text of output tokens, and where in it each of them stands: in order, without white space around. A token
    that shows nothing has an empty span."""

    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class TokenizerConfig:
    """The part of `tokenizer_config.json` that serving obeys."""

    roles: dict[str, str]
    """Token by role, such as `eos_token` → `</s>`."""
    order: TokenOrder
    source: str | None
    target: str | None

    @staticmethod
    def from_folder(folder: Path) -> "TokenizerConfig":
        """Read the file; a folder without it has NLLB's defaults. Raises BrokenConfig."""
        path = folder / TOKENIZER_CONFIG_FILE
        config = read_json_object(path) if path.exists() else {}
        roles = dict(_DEFAULT_ROLES)
        for role in _ROLES:
            token = _token_text(config.get(role))
            if token is not None:
                roles[role] = token
        legacy = config.get("legacy_behaviour", False)
        order = TokenOrder.CODE_LAST if legacy is True else TokenOrder.CODE_FIRST
        return TokenizerConfig(roles, order, _code(config, "src_lang", path), _code(config, "tgt_lang", path))


class Tokenizer:
    """One model's tokenizer. Safe to use from several threads; loading a large one holds the GIL for about 0.8 s."""

    def __init__(self, backend: tokenizers.Tokenizer, config: TokenizerConfig) -> None:
        backend.no_truncation()
        backend.no_padding()
        # A text that spells `</s>` or a language code is text: as a token it would end or turn the translation.
        backend.encode_special_tokens = True
        self._backend = backend
        self._config = config
        added = sorted(backend.get_added_tokens_decoder().items())
        named = set(config.roles.values())
        self.language_codes: tuple[str, ...] = tuple(
            token.content for _, token in added if token.special and token.content not in named
        )
        """Every language code, by id. Special added tokens without a role are language codes and nothing else."""
        self._codes = frozenset(self.language_codes)

    @staticmethod
    def from_folder(folder: Path) -> "Tokenizer":
        """Load from a checkpoint or a converted model. Raises MissingFile, BrokenConfig and VocabularyMismatch."""
        path = folder / TOKENIZER_FILE
        if not path.is_file():
            from nllb_predictor.text.sentencepiece_folder import sentencepiece_tokenizer

            return Tokenizer(sentencepiece_tokenizer(folder), TokenizerConfig.from_folder(folder))
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:
            # The library raises bare Exception for every kind of malformed file.
            raise BrokenConfig(f"{path} is not a tokenizer ({error}).") from error
        return Tokenizer(backend, TokenizerConfig.from_folder(folder))

    @property
    def order(self) -> TokenOrder:
        """Where the source code stands."""
        return self._config.order

    @property
    def default_pair(self) -> tuple[str | None, str | None]:
        """Source and target of the tokenizer's configuration, where it names them."""
        return self._config.source, self._config.target

    @property
    def size(self) -> int:
        """Number of tokens, added ones included."""
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    def role(self, name: str) -> str:
        """The token of a role: `bos_token`, `eos_token`, `unk_token` or `pad_token`."""
        return self._config.roles[name]

    def encode(self, texts: Sequence[str], source: str, *, normalised: bool = False) -> list[list[str]]:
        """Token strings of each text, code and `</s>` included, ready for `Translator.translate_batch`.

        Punctuation is normalised first unless the caller says that it has done so. Raises LanguageNotInModel: an
        unknown code would silently become `<unk>`.
        """
        self.require_code(source)
        if not normalised:
            texts = [normalise_punctuation(text) for text in texts]
        encodings = self._encoded(texts)
        return [self._placed(encoding.tokens, source) for encoding in encodings]

    def encode_with_spans(self, normalised: Sequence[str], source: str) -> list[Encoded]:
        """As `encode`, for texts whose punctuation is normalised already, with the place of each token in them.

        Raises LanguageNotInModel.
        """
        self.require_code(source)
        encodings = self._encoded(normalised)
        before = (None,) * (self.order is TokenOrder.CODE_FIRST)
        after = (None,) * (2 - len(before))
        return [
            Encoded(
                tuple(self._placed(encoding.tokens, source)),
                (*before, *_visible(text, encoding.offsets), *after),
            )
            for text, encoding in zip(normalised, encodings, strict=True)
        ]

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        """Tokens of normalised texts alone, without code and end mark, as translations would hold them."""
        encodings = self._encoded(normalised)
        return [list(encoding.tokens) for encoding in encodings]

    @cached_property
    def lexicon(self) -> Lexicon:
        """Every token that shows something. Sorted when first asked for: a plain translation never needs it."""
        return Lexicon(token for token in self._backend.get_vocab() if token not in self._hidden)

    def _placed(self, pieces: list[str], source: str) -> list[str]:
        end = self.role("eos_token")
        if self.order is TokenOrder.CODE_LAST:
            return [*pieces, end, source]
        return [source, *pieces, end]

    def require_code(self, code: str) -> None:
        """Raises LanguageNotInModel if `code` is no language token of this model."""
        if code not in self._codes:
            raise LanguageNotInModel(f"The model has no language code {code!r}.")

    def decode(self, tokens: Iterable[str]) -> str:
        """Text of output tokens; special tokens are left out, spaces are not tidied."""
        return self.decode_batch([tokens])[0]

    def decode_batch(self, outputs: Iterable[Iterable[str]]) -> list[str]:
        """Texts of several outputs, in one call of the library."""
        ids = [[i for i in self.ids(tokens) if i is not None] for tokens in outputs]
        return [
            text
            for some in _shares(ids)
            for text in self._backend.decode_batch(some, skip_special_tokens=True)
        ]

    def _encoded(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        return [
            each
            for some in _shares(texts)
            for each in self._backend.encode_batch(list(some), add_special_tokens=False)
        ]

    def decode_with_spans(self, outputs: Sequence[Sequence[str]]) -> list[Decoded]:
        """As `decode_batch`, with the place of each token."""
        texts = self.decode_batch(outputs)
        return [
            Decoded(text, _visible(text, self._places(tokens, text)))
            for text, tokens in zip(texts, outputs, strict=True)
        ]

    def _places(self, tokens: Sequence[str], text: str) -> list[tuple[int, int]]:
        """Each token's part of the text: what it shows itself, where the shown parts make up the text; with a decoder
        that does more than to join them, what each adds to what was there before it."""
        shown = self.shown(tokens)
        if "".join(shown) == text:
            ends = list(accumulate(len(each) for each in shown))
        else:
            beginnings = self.decode_batch([tokens[: count + 1] for count in range(len(tokens))])
            ends = [min(len(each), len(text)) for each in accumulate(beginnings, max_by_length)]
        return list(zip([0, *ends], ends, strict=False))

    def shown(self, tokens: Iterable[str]) -> list[str]:
        """What each token shows, the first one without the space that it begins with; special ones show nothing."""
        pieces = ["" if token in self._hidden else token.replace(WORD_START, " ") for token in tokens]
        first = next((place for place, piece in enumerate(pieces) if piece), None)
        if first is not None:
            pieces[first] = pieces[first].removeprefix(" ")
        return pieces

    @cached_property
    def _hidden(self) -> frozenset[str]:
        """Tokens that no decoding shows."""
        added = self._backend.get_added_tokens_decoder().values()
        return frozenset(token.content for token in added if token.special)

    def ids(self, tokens: Iterable[str]) -> list[int | None]:
        """Id of each token string; None for the dummy names of rows without a token."""
        return [self._backend.token_to_id(token) for token in tokens]

    def tokens(self, ids: Iterable[int]) -> list[str | None]:
        """Token string of each id; None for a row without a token."""
        return [self._backend.id_to_token(i) for i in ids]


def max_by_length(left: str, right: str) -> str:
    """The longer text; what a decoder joins may be shorter than what it joined before."""
    return right if len(right) >= len(left) else left


def _shares(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """What the library gets at once: one by one where there are few, since it puts every batch of more than one behind
    all that others have in its pool of threads, a book perhaps."""
    return [items] if len(items) > FEW else [items[place : place + 1] for place in range(len(items))]


def _visible(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """The library's offsets, in order and without the white space around what they show; a token that shows nothing
    else has an empty span."""
    spans: list[Span] = []
    start = 0
    for offset, end in offsets:
        start = max(start, offset)
        shown = text[start:end].lstrip()
        start = max(start, end - len(shown))
        spans.append(Span(start, start + len(shown.rstrip())))
    return tuple(spans)


def _token_text(value: object) -> str | None:
    """A token as older and newer files write it: a string, or an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _code(config: dict[str, Any], key: str, path: Path) -> str | None:
    value = config.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BrokenConfig(f"{path.name}: {key} must be a language code, not {value!r}.")
    return value
