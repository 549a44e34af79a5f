"""From a checkpoint through a real S3 server to a served translation, as a cluster does it, without a cluster."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3.session
import httpx
import pytest

from devcluster.s3 import S3Server
from nllb_predictor.convert.manifest import Options, artifact_key
from nllb_predictor.convert.manifest_json import digest
from tests.integration.predictor.conftest import DATA, ENGINE_ID, REVISION, references
from tests.support.predictor import ROOT, Predictor, start_predictor

KEY = artifact_key(ENGINE_ID, REVISION, Options())
URI = f"s3://artifacts/live/home/{KEY}/"


def keys(server: S3Server) -> dict[str, str]:
    """Credentials, as a Secret puts them into a pod's environment."""
    return {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server.start(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def manifest_sha256(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Convert the tiny checkpoint into the bucket with the command that the Job runs; the manifest's digest."""
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )
    client.create_bucket(Bucket="artifacts")
    paths = os.pathsep.join(str(ROOT / part) for part in ("predictor", "contract"))
    command = [sys.executable, "-m", "nllb_predictor", "convert", str(DATA / "tiny-nllb"), URI]
    identity = ["--engine-id", ENGINE_ID, "--revision", str(REVISION)]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": paths,
        "SERVAL_LIVE_S3_ENDPOINT": server.endpoint,
        "TMPDIR": str(tmp_path_factory.mktemp("work")),
        **keys(server),
    }
    subprocess.run([*command, *identity], env=environment, check=True, timeout=300)
    stored: bytes = client.get_object(Bucket="artifacts", Key=f"live/home/{KEY}/manifest.json")["Body"].read()
    client.close()
    return digest(stored)


def start(folder: Path, server: S3Server, manifest_sha256: str, cache: Path) -> Predictor:
    predictor = start_predictor(
        folder,
        URI,
        ["--cache-dir", str(cache)],
        {
            "SERVAL_LIVE_S3_ENDPOINT": server.endpoint,
            "SERVAL_LIVE_ENGINE_ID": ENGINE_ID,
            "SERVAL_LIVE_MODEL_REVISION": str(REVISION),
            "SERVAL_LIVE_MANIFEST_SHA256": manifest_sha256,
            **keys(server),
        },
    )
    predictor.name = ENGINE_ID
    return predictor


def test_a_converted_artifact_is_served_and_a_restart_in_the_same_pod_needs_no_store(
    server: S3Server, manifest_sha256: str, tmp_path: Path
) -> None:
    verse = next(each for each in references("greedy") if each.source_language == "eng_Latn")
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [verse.source]}]}
    answers = []
    for number in range(2):
        if number == 1:
            server.stop()
        predictor = start(tmp_path / str(number), server, manifest_sha256, tmp_path / "cache")
        try:
            predictor.wait_ready()
            facts = httpx.get(f"{predictor.url}/v2/models/{ENGINE_ID}").json()["properties"]
            answers.append(predictor.infer(body).json()["outputs"])
        finally:
            predictor.stop()
        assert (facts["artifactKey"], facts["manifestSha256"]) == (KEY, manifest_sha256)
    server.restart()
    assert answers[0] == answers[1]
    assert answers[0][0]["data"][0].startswith("Y")


def test_an_artifact_that_is_gone_is_a_load_failure_that_names_it(
    server: S3Server, manifest_sha256: str, tmp_path: Path
) -> None:
    uri = URI.replace(f"/r{REVISION}/", f"/r{REVISION + 1}/")
    predictor = start_predictor(tmp_path, uri, ["--s3-endpoint", server.endpoint], keys(server))
    try:
        assert predictor.wait_exit() == 30
        assert predictor.termination()["reason"] == "ObjectMissing"
        assert f"{uri}manifest.json" in predictor.termination()["message"]
    finally:
        predictor.stop()


def test_wrong_store_credentials_are_told_without_showing_them(
    server: S3Server, manifest_sha256: str, tmp_path: Path
) -> None:
    wrong = {"AWS_ACCESS_KEY_ID": "stranger", "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    predictor = start_predictor(tmp_path, URI, ["--s3-endpoint", server.endpoint], wrong)
    try:
        assert predictor.wait_exit() == 33
        assert predictor.termination()["reason"] == "StoreRefused"
        assert "not-the-secret" not in predictor.log + predictor.termination()["message"]
    finally:
        predictor.stop()
