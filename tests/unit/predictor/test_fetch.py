"""Fetching a base model from a stand-in hub: only what is needed, resumed, checked, whole or not at all."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nllb_predictor import cli, errors
from nllb_predictor.fetch import HubModel, fetch_model
from tests.support.checkpoints import Recipe, make_checkpoint
from tests.support.conversion import convert_to, files
from tests.support.hub import COMMIT, Hub

NAME = "facebook/nllb-200-distilled-600M"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A base model as a hub has it, with files that no conversion reads."""
    folder = make_checkpoint(tmp_path / "published", Recipe(pair=(None, None), shards=2))
    (folder / "README.md").write_text("license: cc-by-nc-4.0")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02")
    return folder


@pytest.fixture
def hub(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_ENDPOINT", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # Small models need small blocks: a broken block is read again as a whole.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 4096)
    # The transfer's pause between two tries is a second; the tries themselves stay.
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    with Hub({NAME: published}) as running:
        yield running


def test_a_fetched_model_is_whole_and_converts(hub: Hub, published: Path, tmp_path: Path) -> None:
    fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    expected = files(published) - {"README.md", "pytorch_model.bin"}
    assert files(tmp_path / "base") == expected
    for name in expected:
        assert (tmp_path / "base" / name).read_bytes() == (published / name).read_bytes()
    assert convert_to(tmp_path / "base", tmp_path / "model").manifest.languages.source is None


def test_all_files_are_of_one_commit(hub: Hub, tmp_path: Path) -> None:
    fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    asked = [path for _, path, _ in hub.requests if "/resolve/" in path]
    assert asked
    assert all(f"/resolve/{COMMIT}/" in path for path in asked)


def test_a_broken_transfer_goes_on_in_the_next_run(hub: Hub, published: Path, tmp_path: Path) -> None:
    large = "model-00001-of-00002.safetensors"
    hub.budget = 20_000
    with pytest.raises(errors.HubUnreachable):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert not (tmp_path / "base").exists()
    assert len(hub.ranges(large)) > 1
    have = (tmp_path / f".base.{COMMIT[:12]}.fetch" / large).stat().st_size
    assert 8_000 < have < (published / large).stat().st_size
    hub.budget = None
    hub.requests.clear()
    fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert hub.ranges(large) == [f"bytes={have}-"]
    assert hub.ranges("config.json") == []
    assert (tmp_path / "base" / large).read_bytes() == (published / large).read_bytes()
    assert not list(tmp_path.glob(".base.*"))


@pytest.mark.parametrize("name", ["config.json", "model-00002-of-00002.safetensors"])
def test_a_damaged_file_is_refused_and_fetched_anew(hub: Hub, tmp_path: Path, name: str) -> None:
    hub.damage = name
    with pytest.raises(errors.ChecksumMismatch, match=name):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert not (tmp_path / "base").exists()
    hub.damage = None
    fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert (tmp_path / "base" / name).is_file()


def test_an_unknown_model_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelNotFound, match="facebook/none"):
        fetch_model(HubModel("facebook/none", hub.url), tmp_path / "base")


def test_an_unknown_revision_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelNotFound, match="v9"):
        fetch_model(HubModel(NAME, hub.url, "v9"), tmp_path / "base")


def test_a_model_with_pickles_only_is_refused_before_anything_is_fetched(
    hub: Hub, published: Path, tmp_path: Path
) -> None:
    for path in published.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(errors.ModelNotFound, match="only pickled"):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert not [path for _, path, _ in hub.requests if "/resolve/" in path]


def test_a_gated_model_asks_for_a_token(hub: Hub, tmp_path: Path) -> None:
    hub.gated.add(NAME)
    with pytest.raises(errors.HubRefused, match="HF_TOKEN"):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base")


def test_a_wrong_token_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.status = 403
    with pytest.raises(errors.HubRefused):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base", token="hf_wrong")


def test_a_hub_that_does_not_answer_is_unreachable(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(errors.HubUnreachable, match=r"127\.0\.0\.1:9"):
        fetch_model(HubModel(NAME, "http://127.0.0.1:9"), tmp_path / "base")


def test_an_existing_folder_is_left_alone(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/mine").write_text("x")
    with pytest.raises(errors.DestinationInUse):
        fetch_model(HubModel(NAME, hub.url), tmp_path / "base")
    assert files(tmp_path / "base") == {"mine"}


@pytest.mark.parametrize(
    ("text", "name", "endpoint", "revision"),
    [
        (NAME, NAME, "https://hub", "main"),
        (f"https://other.example/{NAME}", NAME, "https://other.example", "main"),
        (f"https://other.example/{NAME}/tree/refs/pr/24", NAME, "https://other.example", "refs/pr/24"),
    ],
)
def test_names_and_addresses_mean_the_same(text: str, name: str, endpoint: str, revision: str) -> None:
    assert HubModel.parse(text, "https://hub") == HubModel(name, endpoint, revision)


@pytest.mark.parametrize("text", ["nllb", "a/b/c", "../etc/passwd", "https://hub.example/", ""])
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError):
        HubModel.parse(text, "https://hub")


def test_the_command_takes_the_hub_from_its_setting(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert cli.main(["fetch", NAME, str(tmp_path / "base")]) == 0
        assert (
            cli.main(["fetch", f"{hub.url}/facebook/none", str(tmp_path / "none")])
            == errors.ModelNotFound.exit_code
        )
    finally:
        signal.signal(signal.SIGTERM, handler)
    shown = capsys.readouterr()
    assert COMMIT in shown.out
    assert "fetch model-00001-of-00002.safetensors" in shown.err
    assert "100 %" in shown.err
