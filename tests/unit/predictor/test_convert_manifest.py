"""The manifest as writer, reader and schema see it: what one accepts, the others accept too."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.manifest import Identity, Options, Quantization, artifact_key
from nllb_predictor.convert.run import Request, convert
from nllb_predictor.errors import ManifestInvalid
from serval_live_contract import SCHEMA_NAMES, schema
from tests.support.checkpoints import make_checkpoint
from tests.support.conversion import surroundings

EXAMPLE: dict[str, Any] = {
    "schema": "serval-live/artifact/v1",
    "artifactKey": "66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d",
    "attempt": "a1-7f3c9e",
    "engineId": "66c4a1f09d3e5b7a8c0f1e21",
    "modelRevision": 3,
    "format": "ct2v1",
    "options": {"quantization": "int8", "vocabularyTrim": False},
    "source": {"uri": "s3://models/e1_3.tar.gz", "etag": '"x-2"', "sha256": "ab" * 32, "bytes": 7812345},
    "languages": {
        "source": "eng_Latn",
        "target": "spa_Latn",
        "all": ["eng_Latn", "spa_Latn"],
        "from": "tokenizer_config.json",
    },
    "tokenizer": {
        "file": "tokenizer.json",
        "order": "code-first",
        "tokens": 4205,
        "rows": 4207,
        "special": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "decoderStart": 2, "forcedBos": 4101},
    },
    "model": {"architecture": "m2m_100", "encoderLayers": 3, "decoderLayers": 3, "width": 128, "heads": 4},
    "files": [{"path": "model.bin", "bytes": 2100000, "sha256": "cd" * 32}],
    "converter": {"version": "0.1.0", "image": None},
    "selfTest": {
        "passed": True,
        "checks": [{"name": "token-ids", "detail": "405 ids"}],
        "probes": [
            {
                "text": "Light.",
                "source": "eng_Latn",
                "target": "spa_Latn",
                "tokens": [4101, 17, 2],
                "score": -0.31,
            }
        ],
    },
    "created": "2026-11-30T18:00:00Z",
}

Path_ = tuple[str | int, ...]


def changed(path: Path_, value: Any) -> dict[str, Any]:
    """The example with one value replaced."""
    document = copy.deepcopy(EXAMPLE)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def without(path: Path_) -> dict[str, Any]:
    document = copy.deepcopy(EXAMPLE)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return document


def by_schema(document: Any) -> bool:
    return bool(Draft202012Validator(schema("manifest")).is_valid(document))


def by_reader(document: Any) -> bool:
    try:
        manifest_json.parse(json.dumps(document).encode())
    except ManifestInvalid:
        return False
    return True


def all_paths(value: Any, at: Path_ = ()) -> list[Path_]:
    found: list[Path_] = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += all_paths(child, (*at, key))
    return found


def test_schemas_are_schemas() -> None:
    for name in SCHEMA_NAMES:
        Draft202012Validator.check_schema(schema(name))


def test_the_example_is_accepted_and_survives_a_round_trip() -> None:
    assert by_schema(EXAMPLE)
    parsed = manifest_json.parse(json.dumps(EXAMPLE).encode())
    assert json.loads(manifest_json.dump(parsed)) == EXAMPLE
    assert manifest_json.parse(manifest_json.dump(parsed)) == parsed


@pytest.mark.parametrize("path", [path for path in all_paths(EXAMPLE) if isinstance(path[-1], str)])
def test_reader_and_schema_agree_that_nothing_may_be_missing(path: Path_) -> None:
    assert not by_schema(without(path))
    with pytest.raises(ManifestInvalid, match=str(path[-1])):
        manifest_json.parse(json.dumps(without(path)).encode())


@pytest.mark.parametrize("value", [None, True, -1, 2.5, "", "../x", [], {}, "x" * 300], ids=repr)
@pytest.mark.parametrize("path", all_paths(EXAMPLE), ids=lambda path: ".".join(map(str, path)))
def test_reader_and_schema_agree_on_every_value(path: Path_, value: Any) -> None:
    document = changed(path, value)
    assert by_reader(document) == by_schema(document), document


@pytest.mark.parametrize(
    "path_and_value",
    [
        (("artifactKey",), None),
        (("engineId",), None),
        (("modelRevision",), None),
        (("attempt",), "."),
        (("source", "etag"), None),
        (("languages", "source"), None),
        (("tokenizer", "special", "forcedBos"), None),
        (("tokenizer", "order"), "code-last"),
        (("options", "quantization"), "float16"),
        (("converter", "image"), "registry/image@sha256:00"),
        (("newer",), {"property": 1}),
    ],
    ids=repr,
)
def test_what_may_vary_is_accepted_by_both(path_and_value: tuple[Path_, Any]) -> None:
    document = changed(*path_and_value)
    assert by_schema(document)
    assert by_reader(document)


def test_fewer_rows_than_tokens_are_refused() -> None:
    with pytest.raises(ManifestInvalid, match="rows"):
        manifest_json.parse(json.dumps(changed(("tokenizer", "rows"), 4000)).encode())


def test_a_newer_schema_is_named_and_not_guessed_at() -> None:
    with pytest.raises(ManifestInvalid, match="artifact/v2"):
        manifest_json.parse(json.dumps(changed(("schema",), "serval-live/artifact/v2")).encode())


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ManifestInvalid, match="not JSON"):
        manifest_json.parse(b"<html>")


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_the_key_is_the_hash_of_the_canonical_options(quantization: str) -> None:
    """Written out by hand, since operator and converter compute it apart from each other."""
    canonical = f'{{"quantization":"{quantization}","vocabularyTrim":false}}'
    expected = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    assert artifact_key("e1", 3, Options(Quantization(quantization))) == f"e1/r3/ct2v1-{expected}"


def test_a_written_manifest_is_valid_and_describes_the_files_that_are_there(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "checkpoint")
    request = Request(str(source), str(tmp_path / "model"), identity=Identity("e1", 3))
    done = convert(request, surroundings(tmp_path / "work"))
    stored = (tmp_path / "model/manifest.json").read_bytes()
    document = json.loads(stored)
    Draft202012Validator(schema("manifest")).validate(document)
    assert done.manifest_sha256 == hashlib.sha256(stored).hexdigest()
    assert manifest_json.parse(stored) == done.manifest
    there = {
        path.name: path.read_bytes()
        for path in (tmp_path / "model").iterdir()
        if path.name != "manifest.json"
    }
    assert {entry["path"]: entry["sha256"] for entry in document["files"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in there.items()
    }
    assert document["artifactKey"] == artifact_key("e1", 3, Options())
    assert document["created"] == "2026-11-30T18:00:00Z"


def test_a_folders_digest_is_that_of_its_sha256sum_lines(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "checkpoint")
    (source / "training_args.bin").write_bytes(b"not read, so not counted")
    done = convert(Request(str(source), str(tmp_path / "model")), surroundings(tmp_path / "work"))
    names = sorted(path.name for path in source.iterdir() if path.name != "training_args.bin")
    lines = [f"{hashlib.sha256((source / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    assert done.manifest.source.sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert done.manifest.source.bytes == sum((source / name).stat().st_size for name in names)


def test_conversion_is_reproducible(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "checkpoint")
    results = [
        convert(Request(str(source), str(tmp_path / name)), surroundings(tmp_path / "work"))
        for name in ("a", "b")
    ]
    assert results[0].manifest_sha256 == results[1].manifest_sha256
