"""A converted folder on a mount: used where it lies, read-only, if it is what its manifest says."""

import shutil
from pathlib import Path

import pytest

from nllb_predictor import errors
from nllb_predictor.convert.run import Converted
from nllb_predictor.store import ModelStore, StoreSettings
from tests.support.checkpoints import make_checkpoint
from tests.support.conversion import convert_to, files


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    folder = tmp_path_factory.mktemp("folder")
    return convert_to(make_checkpoint(folder / "checkpoint"), folder / "model")


@pytest.fixture
def folder(made: Converted, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.uri, tmp_path / "model"))


def fetch(folder: Path, tmp_path: Path, wanted: str | None = None) -> Path:
    return ModelStore(StoreSettings()).fetch(str(folder), wanted, tmp_path / "cache").folder


def test_a_folder_is_used_where_it_lies(folder: Path, made: Converted, tmp_path: Path) -> None:
    model = ModelStore(StoreSettings()).fetch(str(folder), made.manifest_sha256, tmp_path / "cache")
    assert model.folder == folder
    assert model.manifest == made.manifest
    assert not (tmp_path / "cache").exists()


def test_a_file_uri_is_a_folder_too(folder: Path, tmp_path: Path) -> None:
    assert ModelStore(StoreSettings()).fetch(f"file://{folder}", None, tmp_path).folder == folder


def test_a_changed_file_is_refused(folder: Path, tmp_path: Path) -> None:
    with (folder / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(errors.ChecksumMismatch, match=r"tokenizer\.json"):
        fetch(folder, tmp_path)


def flip_a_byte(path: Path) -> None:
    """Damage that changes neither size nor structure: in the middle of the weights."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_changed_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    flip_a_byte(folder / "model.bin")
    with pytest.raises(errors.ChecksumMismatch, match=r"model\.bin"):
        fetch(folder, tmp_path)


def test_weights_may_be_checked_later_but_are_refused_then(folder: Path, tmp_path: Path) -> None:
    flip_a_byte(folder / "model.bin")
    model = ModelStore(StoreSettings()).locate(str(folder), None, tmp_path)
    assert [entry.path for entry in model.unchecked] == ["model.bin"]
    with pytest.raises(errors.ChecksumMismatch, match=r"model\.bin"):
        model.check()


def test_a_located_model_has_all_other_files_checked_and_weights_of_the_right_size(
    folder: Path, tmp_path: Path
) -> None:
    locate = ModelStore(StoreSettings()).locate
    with (folder / "model.bin").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(errors.ChecksumMismatch, match=r"model\.bin has \d+ bytes"):
        locate(str(folder), None, tmp_path)
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:-1])
    flip_a_byte(folder / "shared_vocabulary.json")
    with pytest.raises(errors.ChecksumMismatch, match=r"shared_vocabulary\.json"):
        locate(str(folder), None, tmp_path)


def test_a_fetched_model_has_nothing_left_to_check(folder: Path, tmp_path: Path) -> None:
    assert ModelStore(StoreSettings()).fetch(str(folder), None, tmp_path).unchecked == ()


def test_a_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "model.bin").unlink()
    with pytest.raises(errors.ObjectMissing, match=r"model\.bin"):
        fetch(folder, tmp_path)


def test_another_manifest_than_the_wanted_one_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.ChecksumMismatch, match="f" * 64):
        fetch(folder, tmp_path, "f" * 64)


def test_a_model_of_another_converter_has_no_manifest(folder: Path, tmp_path: Path) -> None:
    (folder / "manifest.json").unlink()
    model = ModelStore(StoreSettings()).fetch(str(folder), None, tmp_path)
    assert (model.manifest, model.manifest_sha256) == (None, None)


def test_a_wanted_manifest_must_exist(folder: Path, tmp_path: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(errors.ChecksumMismatch, match=r"has no manifest\.json"):
        fetch(folder, tmp_path, "f" * 64)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.ObjectMissing, match="empty"):
        fetch(tmp_path / "empty", tmp_path)
    with pytest.raises(errors.ObjectMissing, match="none"):
        fetch(tmp_path / "none", tmp_path)
    assert files(tmp_path) == {"empty"}
