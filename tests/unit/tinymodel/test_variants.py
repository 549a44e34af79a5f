"""Every kind of archive is what its name says."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tinymodel import variants
from tinymodel.checkpoint import INDEX, read_safetensors, read_tensors


def unpacked(kind: str, source: Path, scratch: Path) -> Path:
    """The archive's members in a folder."""
    archive = scratch / f"{kind}.tar.gz"
    variants.make_archive(kind, source, archive)
    folder = scratch / kind
    with tarfile.open(archive, "r:gz") as tar:
        tar.extractall(folder, filter="data")
    return folder


def names(archive: Path) -> list[str]:
    with tarfile.open(archive, "r:gz") as tar:
        return tar.getnames()


def test_a_trained_archive_holds_files_at_its_root_and_nothing_of_this_machine(
    noise: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "model.tar.gz"
    variants.make_archive("trained", noise, archive)
    with tarfile.open(archive, "r:gz") as tar:
        members = tar.getmembers()
    assert {"config.json", "model.safetensors", "tokenizer.json", "training_args.bin"} <= {
        m.name for m in members
    }
    assert all(m.isreg() and "/" not in m.name for m in members)
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members} == {(0, 0, "", 0)}


def test_the_same_checkpoint_gives_the_same_archive(noise: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        variants.make_archive("trained", noise, tmp_path / name / "model.tar.gz")
    assert (tmp_path / "one/model.tar.gz").read_bytes() == (tmp_path / "two/model.tar.gz").read_bytes()


def test_shards_together_hold_the_same_weights(noise: Path, tmp_path: Path) -> None:
    folder = unpacked("sharded", noise, tmp_path)
    assert not (folder / "model.safetensors").exists()
    files = set(json.loads((folder / INDEX).read_text())["weight_map"].values())
    assert files == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
    expected, found = read_tensors(noise), read_tensors(folder)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("kind", "dtype", "bound"), [("fp16", "F16", 1e-3), ("bf16", "BF16", 8e-3)])
def test_half_precision_is_stored_as_such_and_near(
    kind: str, dtype: str, bound: float, noise: Path, tmp_path: Path
) -> None:
    folder = unpacked(kind, noise, tmp_path)
    assert {stored.dtype for stored in read_safetensors(folder / "model.safetensors").values()} == {dtype}
    expected, found = read_tensors(noise), read_tensors(folder)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=bound, atol=1e-6)


def test_new_codes_take_the_rows_of_the_old_and_new_characters_are_pieces(
    noise: Path, tmp_path: Path
) -> None:
    folder = unpacked("new-codes", noise, tmp_path)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    old = json.loads((noise / "tokenizer.json").read_text())["model"]["vocab"]
    added = json.loads((folder / "added_tokens.json").read_text())
    source, target = variants.NEW_CODES.source, variants.NEW_CODES.target
    assert list(added) == [source, target]
    assert [added[source], added[target]] == [len(old) + 3, len(old) + 4]
    rows, before = read_tensors(folder)["model.shared.weight"], read_tensors(noise)["model.shared.weight"]
    assert len(rows) == tokenizer.get_vocab_size() == len(old) + 5
    np.testing.assert_array_equal(rows[added[source]], before[old["eng_Latn"]])
    np.testing.assert_array_equal(rows[added[target]], before[old["spa_Latn"]])
    encoded = tokenizer.encode("ŋ", add_special_tokens=False)
    assert "ŋ" in encoded.tokens
    assert tokenizer.encode("a").tokens[0] == target
    assert json.loads((folder / "generation_config.json").read_text())["forced_bos_token_id"] == added[target]


def test_extra_rows_leave_the_tokens_alone(noise: Path, tmp_path: Path) -> None:
    folder = unpacked("extra-rows", noise, tmp_path)
    rows, before = read_tensors(folder)["model.shared.weight"], read_tensors(noise)["model.shared.weight"]
    assert len(rows) == len(before) + 14
    np.testing.assert_array_equal(rows[: len(before)], before)
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == len(rows)


def test_an_empty_archive_has_no_member(noise: Path, tmp_path: Path) -> None:
    variants.make_archive("empty", noise, tmp_path / "empty.tar.gz")
    assert names(tmp_path / "empty.tar.gz") == []


def test_a_pickle_only_archive_has_no_safetensors(noise: Path, tmp_path: Path) -> None:
    variants.make_archive("pickle-only", noise, tmp_path / "p.tar.gz")
    found = names(tmp_path / "p.tar.gz")
    assert "pytorch_model.bin" in found
    assert not any(name.endswith(".safetensors") for name in found)


@pytest.mark.parametrize(
    ("kind", "member"), [("unsafe-path", "../outside.txt"), ("unsafe-link", "link.json")]
)
def test_an_unsafe_archive_has_its_unsafe_member(kind: str, member: str, noise: Path, tmp_path: Path) -> None:
    variants.make_archive(kind, noise, tmp_path / "u.tar.gz")
    with tarfile.open(tmp_path / "u.tar.gz", "r:gz") as tar, pytest.raises(tarfile.FilterError):
        tar.extract(tar.getmember(member), tmp_path, filter="data")


@pytest.mark.parametrize("kind", ["cut-archive", "not-gzip"])
def test_a_broken_archive_cannot_be_read_to_its_end(kind: str, noise: Path, tmp_path: Path) -> None:
    variants.make_archive(kind, noise, tmp_path / "b.tar.gz")
    with pytest.raises((tarfile.ReadError, EOFError)):
        names(tmp_path / "b.tar.gz")


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("no-tokenizer", "tokenizer.json"),
        ("no-config", "config.json"),
        ("missing-shard", "model-00002-of-00002.safetensors"),
    ],
)
def test_a_missing_file_is_missing(kind: str, missing: str, noise: Path, tmp_path: Path) -> None:
    assert not (unpacked(kind, noise, tmp_path) / missing).exists()


def test_too_few_rows_are_fewer_than_tokens(noise: Path, tmp_path: Path) -> None:
    folder = unpacked("too-few-rows", noise, tmp_path)
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    assert len(read_tensors(folder)["model.shared.weight"]) == tokens - 10


def test_the_template_can_be_in_target_mode(noise: Path, tmp_path: Path) -> None:
    folder = unpacked("target-template", noise, tmp_path)
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).encode("a").tokens[0] == "spa_Latn"
