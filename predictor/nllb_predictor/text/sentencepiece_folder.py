"""A tokenizer for a folder that has only the SentencePiece model: pieces, added tokens, and a proof that they fit.

Raw pieces without the language code and `</s>` give rubbish, and so do ids that are shifted by one. So the whole
layout is built as NLLB's own tokenizer has it: `<s>`, `<pad>`, `</s>`, `<unk>`, the pieces behind SentencePiece's own
three control pieces, then the added tokens by the ids that the folder's files give them. Ids that no file gives are
known for the standard layout alone (202 codes and `<mask>`); any other is refused, never guessed. Afterwards
SentencePiece itself cuts a few sentences, and must give the same ids.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from nllb_predictor.convert.names import ADDED_TOKENS_FILE, SENTENCEPIECE_FILE, TOKENIZER_CONFIG_FILE
from nllb_predictor.errors import BrokenConfig, MissingFile, VocabularyMismatch
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.probes import PROBE_TEXTS
from nllb_predictor.text.languages import nllb_codes

FIRST = ("<s>", "<pad>", "</s>", "<unk>")
CONTROL = ("<unk>", "<s>", "</s>")
"""SentencePiece's own first three, which have other places in NLLB."""

MASK = "<mask>"
UNIGRAM, BPE = 1, 2
"""Values of `TrainerSpec.model_type`."""


@dataclass(frozen=True)
class Pieces:
    """What the model file holds."""

    pieces: tuple[tuple[str, float], ...]
    """Piece and score, by SentencePiece's id."""
    kind: int
    charsmap: bytes
    """Normalisation, compiled; empty for none."""


@dataclass(frozen=True)
class Added:
    """A token behind the pieces."""

    id: int
    content: str
    special: bool


def sentencepiece_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """The folder's tokenizer. Raises MissingFile, BrokenConfig and VocabularyMismatch, each with what is wrong."""
    path = folder / SENTENCEPIECE_FILE
    if not path.is_file():
        raise MissingFile(f"{folder} has neither tokenizer.json nor {SENTENCEPIECE_FILE}.")
    stored = read_pieces(path)
    backend = _backend(stored)
    for token in added_tokens(folder, len(FIRST) + len(stored.pieces) - len(CONTROL)):
        # `<mask>` takes the space before it; codes stand as they are.
        mask = token.content == MASK
        made = AddedToken(token.content, special=token.special, normalized=mask, lstrip=mask)
        (backend.add_special_tokens if token.special else backend.add_tokens)([made])
        if backend.token_to_id(token.content) != token.id:
            raise VocabularyMismatch(
                f"{token.content!r} should have the id {token.id}, but gets {backend.token_to_id(token.content)}."
            )
    _prove(backend, path)
    return backend


def write_tokenizer_json(folder: Path, target: Path) -> None:
    """The same as a `tokenizer.json`, for whatever reads only that."""
    target.write_text(sentencepiece_tokenizer(folder).to_str(), encoding="utf-8")


def added_tokens(folder: Path, first: int) -> tuple[Added, ...]:
    """Tokens with ids from `first` on, in order. Raises VocabularyMismatch where no file gives the ids."""
    config = _optional(folder / TOKENIZER_CONFIG_FILE)
    found = {token.id: token for token in (*_by_name(folder), *_by_id(config)) if token.id >= first}
    if found:
        tokens = tuple(found[number] for number in sorted(found))
        if [token.id for token in tokens] != list(range(first, first + len(tokens))):
            raise VocabularyMismatch(
                f"The added tokens have the ids {tokens[0].id} to {tokens[-1].id} with gaps; pieces end at {first - 1}."
            )
        return tokens
    codes = nllb_codes()
    listed = config.get("extra_special_tokens") or config.get("additional_special_tokens")
    listed = [_content(each) for each in listed] if isinstance(listed, list) else None
    if listed not in (None, list(codes)):
        raise VocabularyMismatch(
            f"{TOKENIZER_CONFIG_FILE} lists tokens of its own without their ids.",
            hint=f"Save the tokenizer with tokenizer.json, or with {ADDED_TOKENS_FILE}.",
        )
    return tuple(Added(first + place, token, True) for place, token in enumerate((*codes, MASK)))


def _by_name(folder: Path) -> list[Added]:
    """`added_tokens.json`: an id for each token. It does not tell which are special."""
    codes = set(nllb_codes())
    stored = _optional(folder / ADDED_TOKENS_FILE)
    return [
        Added(number, token, token in codes or token == MASK or _looks_like_code(token))
        for token, number in stored.items()
        if isinstance(number, int)
    ]


def _by_id(config: dict[str, Any]) -> list[Added]:
    """`added_tokens_decoder` of the configuration: a token for each id."""
    stored = config.get("added_tokens_decoder")
    if not isinstance(stored, dict):
        return []
    return [
        Added(int(number), _content(entry), bool(isinstance(entry, dict) and entry.get("special")))
        for number, entry in stored.items()
        if str(number).isdecimal()
    ]


def _looks_like_code(token: str) -> bool:
    language, _, script = token.partition("_")
    return len(language) == 3 and language.islower() and len(script) == 4 and script.istitle()


def _content(entry: Any) -> str:
    return str(entry.get("content")) if isinstance(entry, dict) else str(entry)


def _optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() else {}


def read_pieces(path: Path) -> Pieces:
    """The model file. Raises BrokenConfig where it is none, or of a layout that NLLB does not have."""
    from google.protobuf.message import DecodeError

    try:
        proto = _model_class().FromString(path.read_bytes())
    except DecodeError as error:
        raise BrokenConfig(f"{path} is no SentencePiece model ({error}).") from error
    pieces = tuple((piece.piece, piece.score) for piece in proto.pieces)
    kind = proto.trainer_spec.model_type
    if tuple(piece for piece, _ in pieces[: len(CONTROL)]) != CONTROL:
        raise BrokenConfig(f"{path} does not begin with {', '.join(CONTROL)}, as NLLB's pieces do.")
    if kind not in (UNIGRAM, BPE):
        raise BrokenConfig(f"{path} is of model type {kind}; only unigram and BPE are read.")
    return Pieces(pieces, kind, proto.normalizer_spec.precompiled_charsmap)


@cache
def _model_class() -> Any:
    """The fields that are needed of sentencepiece_model.proto. The library's own module demands one exact version of
    protobuf, which another library of the process may not have."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    package = "nllb_predictor.sentencepiece"
    messages: dict[str, list[tuple[Any, ...]]] = {
        "Piece": [("piece", 1, field.TYPE_STRING), ("score", 2, field.TYPE_FLOAT)],
        "Trainer": [("model_type", 3, field.TYPE_INT32, "1")],
        "Normalizer": [("precompiled_charsmap", 2, field.TYPE_BYTES)],
    }
    file = descriptor_pb2.FileDescriptorProto(name="nllb_predictor/sentencepiece.proto", package=package)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for label, number, kind, *default in fields:
            made = message.field.add(name=label, number=number, type=kind, label=field.LABEL_OPTIONAL)
            made.default_value = default[0] if default else ""
    model = file.message_type.add(name="Model")
    for label, number, name in (
        ("pieces", 1, "Piece"),
        ("trainer_spec", 2, "Trainer"),
        ("normalizer_spec", 3, "Normalizer"),
    ):
        many = field.LABEL_REPEATED if name == "Piece" else field.LABEL_OPTIONAL
        model.field.add(
            name=label, number=number, type=field.TYPE_MESSAGE, type_name=f".{package}.{name}", label=many
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Model"))


def _backend(stored: Pieces) -> tokenizers.Tokenizer:
    """Model, normaliser and spaces as NLLB's tokenizer has them."""
    own = stored.pieces[len(CONTROL) :]
    if stored.kind == UNIGRAM:
        model: Any = models.Unigram([*((token, 0.0) for token in FIRST), *own], unk_id=FIRST.index("<unk>"))
    else:
        vocabulary = {token: number for number, token in enumerate((*FIRST, *(piece for piece, _ in own)))}
        model = models.BPE(vocabulary, merges_of(dict(own)), unk_token="<unk>", fuse_unk=True)
    backend = tokenizers.Tokenizer(model)
    steps: list[Any] = [normalizers.Precompiled(stored.charsmap)] if stored.charsmap else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in FIRST])
    return backend


def merges_of(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Every way to make a piece of two, best score first: SentencePiece merges the pair whose result scores highest."""
    order = {piece: place for place, piece in enumerate(scores)}
    merges: list[tuple[str, str]] = []
    for piece in sorted(scores, key=lambda piece: (-scores[piece], order[piece])):
        ways = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [way for way in ways if way[0] in order and way[1] in order]
        merges += sorted(known, key=lambda way: (order[way[0]], order[way[1]]))
    return merges


def _prove(backend: tokenizers.Tokenizer, path: Path) -> None:
    """SentencePiece's own ids of some sentences, moved by one, are ours. Raises VocabularyMismatch."""
    import sentencepiece

    own = sentencepiece.SentencePieceProcessor(model_file=str(path))
    unknown = FIRST.index("<unk>")
    for text in PROBE_TEXTS:
        moved = [number + 1 if number else unknown for number in own.encode(text)]
        # SentencePiece may give an id for each unknown character of a run, NLLB's tokenizer gives one for the run.
        expected = [
            each
            for place, each in enumerate(moved)
            if not place or (each, moved[place - 1]) != (unknown,) * 2
        ]
        seen = backend.encode(text, add_special_tokens=False).ids
        if seen != expected:
            shown = json.dumps([seen[:8], expected[:8]])
            raise VocabularyMismatch(
                f"{path} cuts a probe sentence otherwise than the tokenizer built of it: {shown}."
            )
