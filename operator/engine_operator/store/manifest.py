"""Reading a manifest: bytes in, facts out, or a refusal that says what is wrong with it.

Pure. A manifest counts only if it keeps the shared schema and names the very artifact that its key names, since a
predictor that is told its digest will load whatever stands in it.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from engine_operator.domain.keys import ArtifactKey
from engine_operator.errors import ManifestInvalid
from serval_live_contract import schema


@dataclass(frozen=True)
class Manifest:
    """What the operator reads of a manifest."""

    key: ArtifactKey
    attempt: str
    sha256: str
    """Of the bytes as stored."""
    source_sha256: str
    source_bytes: int
    model_bytes: int
    """Size of all files together."""


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema("manifest"))


def read_manifest(key: ArtifactKey, content: bytes) -> Manifest:
    """Check and read the manifest stored under `key`. Raises ManifestInvalid."""
    try:
        body: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestInvalid(f"{key}/manifest.json is no JSON: {error}") from error
    broken = next(iter(_validator().iter_errors(body)), None)
    if broken is not None:
        raise ManifestInvalid(f"{key}/manifest.json: {broken.json_path} {broken.message[:200]}")
    for field, expected in (
        ("artifactKey", str(key)),
        ("engineId", str(key.engine_id)),
        ("modelRevision", key.revision),
    ):
        if body[field] != expected:
            raise ManifestInvalid(f"{key}/manifest.json: {field} is {body[field]!r}, not {expected!r}")
    return Manifest(
        key=key,
        attempt=str(body["attempt"]),
        sha256=hashlib.sha256(content).hexdigest(),
        source_sha256=str(body["source"]["sha256"]),
        source_bytes=int(body["source"]["bytes"]),
        model_bytes=sum(int(file["bytes"]) for file in body["files"]),
    )
