"""A conversion whose source lies in another store than its artifacts, or has keys of its own; both are real servers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import boto3
import pytest

from devcluster.s3 import S3Server
from nllb_predictor import cli, errors
from tests.support.checkpoints import make_checkpoint, pack_archive

SOURCE = "s3://models/66c4a1f09d3e5b7a8c0f1e21_3.tar.gz"
OWN_KEYS = ("SERVAL_LIVE_SOURCE_AWS_ACCESS_KEY_ID", "SERVAL_LIVE_SOURCE_AWS_SECRET_ACCESS_KEY")


def make_bucket(server: S3Server, name: str, archive: Path | None = None) -> None:
    session = boto3.session.Session(server.access_key, server.secret_key, region_name=server.region)
    client = session.client("s3", endpoint_url=server.endpoint)
    client.create_bucket(Bucket=name)
    if archive is not None:
        client.upload_file(str(archive), name, SOURCE.rpartition("/")[2])
    client.close()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, S3Server]]:
    """Serval's store with an engine's archive, and the artifact store; neither knows the other's keys."""
    folder = tmp_path_factory.mktemp("stores")
    archive = pack_archive(folder / "engine.tar.gz", make_checkpoint(folder / "checkpoint"))
    with ExitStack() as stack:
        serval, artifacts = (stack.enter_context(S3Server.start(folder / name)) for name in ("serval", "own"))
        make_bucket(serval, "models", archive)
        make_bucket(artifacts, "artifacts")
        yield serval, artifacts


@pytest.fixture(autouse=True)
def pod(stores: tuple[S3Server, S3Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a conversion Job, with everything about the source's store in its own variables."""
    serval, artifacts = stores
    environment = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": artifacts.access_key,
        "AWS_SECRET_ACCESS_KEY": artifacts.secret_key,
        "SERVAL_LIVE_S3_ENDPOINT": artifacts.endpoint,
        "SERVAL_LIVE_SOURCE_S3_ENDPOINT": serval.endpoint,
        "SERVAL_LIVE_SOURCE_S3_REGION": serval.region,
        OWN_KEYS[0]: serval.access_key,
        OWN_KEYS[1]: serval.secret_key,
        "SERVAL_LIVE_CACHE_DIR": str(tmp_path / "cache"),
        "SERVAL_LIVE_TERMINATION_LOG": str(tmp_path / "termination"),
    }
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_the_source_is_read_with_its_own_keys_and_the_model_written_with_the_others(
    stores: tuple[S3Server, S3Server],
) -> None:
    serval, artifacts = stores
    assert cli.main(["convert", SOURCE, "s3://artifacts/two-stores/", "--attempt", "a1"]) == 0
    assert (artifacts.folder / "artifacts/two-stores/manifest.json").is_file()
    assert (artifacts.folder / "artifacts/two-stores/a1/model.bin").is_file()
    assert [each.name for each in (serval.folder / "models").iterdir() if each.is_file()] == [
        SOURCE.rpartition("/")[2]
    ]


def test_without_keys_of_its_own_the_source_is_asked_with_the_plain_ones(
    stores: tuple[S3Server, S3Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First those of the other store, then those that the source's store knows. versitygw answers a HEAD with unknown
    keys with a bare 404, AWS with 403."""
    for name in OWN_KEYS:
        monkeypatch.delenv(name)
    closed = {errors.SourceRefused.exit_code, errors.SourceMissing.exit_code}
    assert cli.main(["convert", SOURCE, str(tmp_path / "refused")]) in closed
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", stores[0].access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", stores[0].secret_key)
    assert cli.main(["convert", SOURCE, str(tmp_path / "model")]) == 0


def test_without_any_variable_of_its_own_the_source_lies_in_the_artifact_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*OWN_KEYS, "SERVAL_LIVE_SOURCE_S3_ENDPOINT", "SERVAL_LIVE_SOURCE_S3_REGION"):
        monkeypatch.delenv(name)
    assert cli.main(["convert", SOURCE, str(tmp_path / "model")]) == errors.SourceMissing.exit_code


def test_half_a_pair_of_keys_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(OWN_KEYS[1])
    assert cli.main(["convert", SOURCE, str(tmp_path / "model")]) == errors.UsageError.exit_code
    assert OWN_KEYS[1] in capsys.readouterr().err
