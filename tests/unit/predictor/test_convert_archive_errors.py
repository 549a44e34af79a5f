"""Archives that cannot be converted: each refusal by name, nothing unpacked that must not be."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nllb_predictor import cli, errors
from tests.support.archives import member, write_archive
from tests.support.checkpoints import (
    Recipe,
    make_checkpoint,
    pack_archive,
)
from tests.support.conversion import convert_to
from tests.support.refusals import pickled, refused

pytestmark = pytest.mark.usefixtures("own_process_settings")


def test_nothing_at_the_source_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path / "none") in refused(tmp_path, capsys, errors.SourceMissing, str(tmp_path / "none"))


def test_a_broken_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = pack_archive(tmp_path / "a.tar.gz", make_checkpoint(tmp_path / "checkpoint"))
    archive.write_bytes(archive.read_bytes()[:5000])
    assert "a.tar.gz" in refused(tmp_path, capsys, errors.BrokenArchive, str(archive))


def test_an_archive_of_no_bytes_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"")
    message = refused(tmp_path, capsys, errors.BrokenArchive, str(tmp_path / "a.tar.gz"))
    assert "a.tar.gz" in message
    assert "0 bytes" in message


def test_an_unsafe_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [member("../config.json", b"{}")])
    assert "../config.json" in refused(tmp_path, capsys, errors.UnsafeArchive, str(archive))
    assert not (tmp_path / "config.json").exists()


def test_pickles_in_an_archive_are_refused_and_never_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    pickled(folder)
    archive = pack_archive(tmp_path / "a.tar.gz", folder)
    assert "pytorch_model.bin" in refused(tmp_path, capsys, errors.PickleOnly, str(archive))
    assert not (folder / "pickle-was-loaded").exists()


def test_an_archive_without_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    (folder / "model.safetensors").unlink()
    archive = pack_archive(tmp_path / "a.tar.gz", folder)
    assert "model.safetensors" in refused(tmp_path, capsys, errors.MissingFile, str(archive))


def test_an_empty_archive_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    message = refused(tmp_path, capsys, errors.EmptyArchive, str(archive))
    assert "e1_1.tar.gz" in message
    assert "--base" in message


def test_an_empty_archive_becomes_its_base_with_the_pair_that_is_given(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", replace(Recipe(), pair=(None, None)))
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    languages = ["--source-language", "fra_Latn", "--target-language", "eng_Latn"]
    assert cli.main(["convert", str(archive), str(tmp_path / "model"), "--base", str(base), *languages]) == 0
    manifest = json.loads((tmp_path / "model/manifest.json").read_bytes())
    convert_to(base, tmp_path / "from-base")
    assert (manifest["languages"]["source"], manifest["languages"]["target"]) == ("fra_Latn", "eng_Latn")
    assert manifest["languages"]["from"] == "arguments"
    assert manifest["selfTest"]["probes"][0]["source"] == "fra_Latn"


def test_an_empty_archive_with_a_base_needs_its_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = make_checkpoint(tmp_path / "base", replace(Recipe(), pair=(None, None)))
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    arguments = (str(archive), str(tmp_path / "model"), "--base", str(base))
    assert "--source-language" in refused(tmp_path, capsys, errors.UsageError, *arguments)
