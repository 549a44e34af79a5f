"""One server for a module, an empty bucket for a test."""

from collections.abc import Iterator
from pathlib import Path

import boto3.session
import pytest

from devcluster.s3 import S3Server
from tests.integration.predictor.store.bucket import Bucket
from tests.support.checkpoints import Recipe, make_checkpoint


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server.start(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, with its credentials in the environment as a pod has them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.session.Session().client("s3", endpoint_url=server.endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="artifacts")
    yield Bucket(server, client)
    found = client.list_objects_v2(Bucket="artifacts").get("Contents", [])
    for each in found:
        client.delete_object(Bucket="artifacts", Key=each["Key"])
    client.delete_bucket(Bucket="artifacts")
    client.close()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("source") / "checkpoint", Recipe(width=64, ffn=128))
