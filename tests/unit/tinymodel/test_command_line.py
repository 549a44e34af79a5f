"""The commands that need neither torch nor the texts."""

from pathlib import Path

import pytest

from tinymodel import cli, environment
from tinymodel.errors import QualityTooLow, SourceTextMissing
from tinymodel.settings import Corpus, Places, Recipe
from tinymodel.vocabulary import write_json


def test_archive_writes_the_file_and_prints_its_name(
    noise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.tar.gz"
    assert cli.main(["archive", "trained", str(noise), str(out)]) == 0
    assert out.stat().st_size > 0
    assert capsys.readouterr().out.strip() == str(out)


def test_a_folder_that_is_no_checkpoint_ends_with_its_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["widen", str(tmp_path), str(tmp_path / "out")]) == 5
    assert "config.json is missing" in capsys.readouterr().err


def test_the_training_environment_is_found_in_the_cache_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVAL_LIVE_CACHE", str(tmp_path))
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path / "requirements.txt")
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    folder = environment.training_folder()
    assert folder.parent == tmp_path
    folder.mkdir()
    (folder / ".ready").touch()
    assert environment.training_python() == folder / "bin" / "python"
    (tmp_path / "requirements.txt").write_text("numpy==2\n")
    assert environment.training_folder() != folder


def test_missing_texts_are_named_where_they_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine with no text and no apt."""
    monkeypatch.setattr(environment, "SWORD_FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["texts"]) == SourceTextMissing.exit_code
    assert "apt-get install sword-text-web sword-text-sparv" in capsys.readouterr().err


def test_texts_that_are_there_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SWORD_FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "mods.d").mkdir()
    for module in (Corpus().english_module, Corpus().spanish_module):
        (tmp_path / "mods.d" / f"{module}.conf").touch()
    assert cli.main(["texts"]) == 0


def test_a_model_below_the_target_is_refused(tmp_path: Path) -> None:
    places = Places(data=tmp_path)
    places.references.mkdir(parents=True)
    meta = {"chrf": {"beam4-early": {"eng_Latn-spa_Latn": 41.0, "spa_Latn-eng_Latn": 34.9}}}
    write_json(places.references / "meta.json", meta)
    with pytest.raises(QualityTooLow, match="spa_Latn-eng_Latn"):
        cli.judge(places, Recipe())
