"""Identity of work: which converted model is meant, and where it lies.

An artifact key names engine, model revision, artifact format and conversion options, and nothing else. The
converter's version is deliberately absent: a new release of ours must not convert every model again. Where a person
asks for just that (`policy.reconvert`), the converter's image becomes one of the options.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Self

EngineId = NewType("EngineId", str)
"""Serval's engine id (24 hex digits), or `model_engine_id` of a person's model."""

FORMAT = "ct2v1"
"""Format of the artifacts; raised only when older artifacts cannot be served any more."""

_KEY = re.compile(
    r"^(?P<engine>[A-Za-z0-9._-]+)/r(?P<revision>[0-9]+)/(?P<format>[a-z0-9]+)-(?P<options>[0-9a-f]{8})$"
)


class Quantization(StrEnum):
    """Weight types that the converter writes; the words are CTranslate2's."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT16 = "int16"
    INT8 = "int8"
    INT8_FLOAT32 = "int8_float32"
    INT8_FLOAT16 = "int8_float16"
    INT8_BFLOAT16 = "int8_bfloat16"


def digest(*parts: str, length: int) -> str:
    """Return the first `length` hex digits of the SHA-256 of the parts, separated so that they cannot run together."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:length]


@dataclass(frozen=True)
class ConversionOptions:
    """Everything that changes the bytes of an artifact besides its source."""

    quantization: Quantization = Quantization.INT8
    vocabulary_trim: bool = False
    converter: str = ""
    """Image of the converter, where another one is to convert again; empty: any converter's artifact is good."""

    @property
    def hash8(self) -> str:
        """First 8 hex digits of the SHA-256 of the canonical JSON (sorted keys, no spaces)."""
        options: dict[str, object] = {
            "quantization": self.quantization.value,
            "vocabularyTrim": self.vocabulary_trim,
        }
        if self.converter:
            options["converter"] = self.converter
        canonical = json.dumps(options, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:8]


@dataclass(frozen=True, order=True)
class ArtifactKey:
    """`<engineId>/r<modelRevision>/<format>-<optionsHash8>`, below `<artifactStore>/<installation>/`."""

    engine_id: EngineId
    revision: int
    options_hash: str
    format: str = FORMAT

    @classmethod
    def of(cls, engine_id: EngineId, revision: int, options: ConversionOptions) -> Self:
        """Key of one conversion."""
        return cls(engine_id, revision, options.hash8)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a key back from a store listing or an environment value; None if it is not one of ours."""
        found = _KEY.match(text.strip("/"))
        if found is None:
            return None
        return cls(EngineId(found["engine"]), int(found["revision"]), found["options"], found["format"])

    def __str__(self) -> str:
        return f"{self.engine_id}/r{self.revision}/{self.format}-{self.options_hash}"


def model_engine_id(name: str, uri: str) -> EngineId:
    """Engine id of a model that a person named by `spec.model`.

    The URI is part of it: pointing the same resource at another folder is another model, never a cache hit.
    """
    return EngineId(f"{name}-{digest(uri, length=8)}")


def attempt_id(key: ArtifactKey, attempt: int, converter_image: str) -> str:
    """Name of the folder one conversion attempt writes into, e.g. `a1-7f3c9e`."""
    return f"a{attempt}-{digest(str(key), str(attempt), converter_image, length=6)}"


def installation_name(cluster_uid: str, namespace: str, source: str | None) -> str:
    """Folder of one installation in an artifact store.

    Engines without a ServalSource share `_models`, which no Kubernetes name can be.
    """
    return f"{cluster_uid[:8]}-{namespace}-{source or '_models'}"
