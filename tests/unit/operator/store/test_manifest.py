"""A manifest counts only if it keeps its schema and names the artifact that its key names."""

import hashlib
import json
from typing import Any

import pytest

from engine_operator.domain.keys import ArtifactKey
from engine_operator.errors import ManifestInvalid
from engine_operator.store.manifest import read_manifest
from tests.support.kube_simulator.converter import manifest_of

KEY = ArtifactKey.parse("66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d")
assert KEY is not None


def manifest(**changes: Any) -> bytes:
    """A good manifest of KEY, changed."""
    arguments = {
        "--artifact-key": str(KEY),
        "--attempt": "a1-7f3c9e",
        "--engine-id": "66c4a1f09d3e5b7a8c0f1e21",
        "--revision": "3",
        "--quantization": "int8",
    }
    return json.dumps({**manifest_of(arguments, b"archive"), **changes}).encode()


def test_a_good_manifest_is_read_with_the_digest_of_its_bytes_as_stored() -> None:
    assert KEY is not None
    content = manifest()
    found = read_manifest(KEY, content)
    assert (found.attempt, found.sha256) == ("a1-7f3c9e", hashlib.sha256(content).hexdigest())
    assert read_manifest(KEY, content + b"\n").sha256 != found.sha256


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"{", "no JSON"),
        (b"[]", "not of type"),
        (manifest(schema="serval-live/artifact/v2"), "schema"),
        (manifest(files=[]), "files"),
        (manifest(artifactKey="66c4a1f09d3e5b7a8c0f1e21/r4/ct2v1-1a2b3c4d"), "artifactKey"),
        (manifest(engineId="66c4a1f09d3e5b7a8c0f1e22"), "engineId"),
        (manifest(modelRevision=4), "modelRevision"),
    ],
)
def test_a_manifest_of_something_else_is_refused_and_says_where(content: bytes, part: str) -> None:
    assert KEY is not None
    with pytest.raises(ManifestInvalid, match=part):
        read_manifest(KEY, content)


def test_json_deeper_than_python_reads_is_an_invalid_manifest() -> None:
    assert KEY is not None
    with pytest.raises(ManifestInvalid):
        read_manifest(KEY, b"[" * 1_000_000)
