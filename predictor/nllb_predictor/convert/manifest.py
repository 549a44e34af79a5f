"""The manifest of a converted model: what the files are, where they came from, and what they were seen to do.

It is the only thing that a predictor trusts: files are read because it names them, with the sizes and digests that it
names. This module is only the shape; `manifest_json` reads and writes it.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

from nllb_predictor.errors import ManifestInvalid

SCHEMA = "serval-live/artifact/v1"
FORMAT = "ct2v1"
"""Raised only if older artifacts cannot be served: it is part of every artifact's key."""
MANIFEST_NAME = "manifest.json"
MANIFEST_LIMIT = 4 * 1024 * 1024
"""Bytes. A manifest is a few kilobytes; anything larger under its name is a mistake."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}\Z")
"""A file name that can neither leave its folder nor surprise a shell."""

Sha256 = NewType("Sha256", str)
"""64 lower-case hexadecimal digits."""


class Quantization(StrEnum):
    """How weights are stored; the words are CTranslate2's own."""

    INT8 = "int8"
    INT8_FLOAT32 = "int8_float32"
    INT8_FLOAT16 = "int8_float16"
    INT8_BFLOAT16 = "int8_bfloat16"
    INT16 = "int16"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


class TokenOrder(StrEnum):
    """Where the source language code stands in the encoder's input."""

    CODE_FIRST = "code-first"
    """`[code] pieces </s>`, today's order."""
    CODE_LAST = "code-last"
    """`pieces </s> [code]`, of models trained with `legacy_behaviour`."""


class LanguageOrigin(StrEnum):
    """Where a model's own pair was found."""

    ARGUMENTS = "arguments"
    TOKENIZER_CONFIG = "tokenizer_config.json"
    GENERATION_CONFIG = "generation_config.json"
    NONE = "none"


@dataclass(frozen=True)
class Options:
    """What a person chose; everything that changes the bytes of the model, and nothing else."""

    quantization: Quantization = Quantization.INT8
    vocabulary_trim: str | bool = False
    """False, or a digest of what decides which tokens stay: other texts make another model."""

    def to_json(self) -> dict[str, Any]:
        return {"quantization": self.quantization.value, "vocabularyTrim": self.vocabulary_trim}

    def hash8(self, converter: str | None = None) -> str:
        """First 8 hexadecimal digits of the SHA-256 of the canonical JSON: part of the artifact's key.

        `converter`: its image, where every new converter is to convert again.
        """
        options = self.to_json() | ({"converter": converter} if converter else {})
        canonical = json.dumps(options, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def artifact_key(engine_id: str, revision: int, options: Options, converter: str | None = None) -> str:
    """`<engineId>/r<modelRevision>/<format>-<optionsHash8>`: the same work always has the same name."""
    return f"{engine_id}/r{revision}/{FORMAT}-{options.hash8(converter)}"


@dataclass(frozen=True)
class Identity:
    """Whose model it is. All None for a model that belongs to no engine."""

    engine_id: str | None = None
    model_revision: int | None = None
    artifact_key: str | None = None
    attempt: str = "."


@dataclass(frozen=True)
class Source:
    """The checkpoint that was converted."""

    uri: str
    """Without query and credentials: a presigned URL's signature is a secret for an hour."""
    etag: str | None
    sha256: Sha256
    bytes: int


@dataclass(frozen=True)
class Languages:
    """The model's own pair, if it was trained for one, and every code that it knows, by id."""

    source: str | None
    target: str | None
    all: tuple[str, ...]
    origin: LanguageOrigin


@dataclass(frozen=True)
class SpecialIds:
    """Token ids with a role. `forced_bos` is None where the model has no target language of its own."""

    bos: int
    pad: int
    eos: int
    unk: int
    decoder_start: int
    forced_bos: int | None


@dataclass(frozen=True)
class TokenizerFacts:
    """`tokens` is what the tokenizer knows, `rows` what the embedding holds; rows >= tokens."""

    file: str
    order: TokenOrder
    tokens: int
    rows: int
    special: SpecialIds


@dataclass(frozen=True)
class VocabularyTrim:
    """Which tokens stayed, where a vocabulary was trimmed to what a pair's texts use."""

    kept: int
    dropped: int
    minimum_count: int
    segments: int
    """Lines of text that were read."""
    unseen_share: float
    """Expected share of pieces in further text of the same kind that none of these texts used."""
    texts: tuple[Sha256, ...]
    kept_sha256: Sha256
    """Of the kept tokens, joined by line feeds, in the order of their ids."""
    dropped_file: str
    """JSON list of the tokens that are gone, beside the model."""
    rest_rows: int
    """Rows behind the kept ones that hold the probability of the dropped tokens."""


@dataclass(frozen=True)
class ModelFacts:
    """Shape of the network."""

    architecture: str
    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int


@dataclass(frozen=True)
class FileEntry:
    """One file of the attempt folder, by plain name."""

    path: str
    bytes: int
    sha256: Sha256


@dataclass(frozen=True)
class Check:
    """One passed check of the self-test, with the numbers that it saw."""

    name: str
    detail: str


@dataclass(frozen=True)
class Probe:
    """A sentence and what the converted model made of it, greedily, on the converting machine.

    `tokens` begins with the language token and ends with `</s>` unless the limit of the probe cut it; `score` is the
    mean log-probability over `tokens`, the forced language token counted as 0.
    """

    text: str
    source: str
    target: str
    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class SelfTest:
    """A manifest is only written for a model that passed, so there is no flag to set."""

    checks: tuple[Check, ...]
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class Converter:
    """What made the model. Not part of the key: a new release converts nothing again."""

    version: str
    image: str | None


@dataclass(frozen=True)
class Manifest:
    """Everything above, about one artifact."""

    identity: Identity
    options: Options
    source: Source
    languages: Languages
    tokenizer: TokenizerFacts
    model: ModelFacts
    files: tuple[FileEntry, ...]
    converter: Converter
    self_test: SelfTest
    created: str
    """UTC, `2026-11-30T18:00:00Z`."""
    vocabulary_trim: VocabularyTrim | None = None
    """None for a model with all its tokens."""

    def file(self, path: str) -> FileEntry:
        """The entry of that name. Raises ManifestInvalid if the manifest names no such file."""
        for entry in self.files:
            if entry.path == path:
                return entry
        raise ManifestInvalid(f"The manifest names no file {path}.")
