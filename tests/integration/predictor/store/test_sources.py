"""Checkpoints in a real S3 server: folders by their names, archives as streams, presigned URLs that show nowhere."""

import hashlib
from pathlib import Path

import pytest

from nllb_predictor import errors
from nllb_predictor.convert.run import Request, Surroundings, convert
from tests.integration.predictor.store.bucket import Bucket, port, presigned, publish
from tests.support.checkpoints import Recipe, make_checkpoint, pack_archive
from tests.support.wire import Proxy


@pytest.mark.parametrize("shards", [1, 3])
def test_a_folder_in_s3_gives_the_model_of_the_same_local_folder(
    bucket: Bucket, tmp_path: Path, shards: int
) -> None:
    local = make_checkpoint(tmp_path / "local", Recipe(shards=shards))
    for path in local.iterdir():
        bucket.put(f"base/{path.name}", path.read_bytes())
    from_s3 = convert(
        Request("s3://artifacts/base/", str(tmp_path / "a")), Surroundings(tmp_path / "work", bucket.settings)
    )
    from_folder = convert(Request(str(local), str(tmp_path / "b")), Surroundings(tmp_path / "work"))
    assert from_s3.manifest.file("model.bin") == from_folder.manifest.file("model.bin")
    assert from_s3.manifest.source.sha256 == from_folder.manifest.source.sha256


def test_pickles_in_an_s3_folder_are_refused_unread(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    for path in checkpoint.iterdir():
        name = "pytorch_model.bin" if path.name == "model.safetensors" else path.name
        bucket.put(f"base/{name}", path.read_bytes())
    with pytest.raises(errors.PickleOnly, match=r"pytorch_model\.bin"):
        publish(bucket, "s3://artifacts/base/", tmp_path)


def test_an_archive_stream_goes_on_where_it_broke(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    archive = pack_archive(tmp_path / "e1_3.tar.gz", checkpoint).read_bytes()
    bucket.put("models/e1_3.tar.gz", archive)
    with Proxy(port(bucket.server.endpoint)) as proxy:
        proxy.break_next(3, after=len(archive) // 5)
        url = presigned(bucket, proxy, "models/e1_3.tar.gz")
        done = convert(
            Request(url, str(tmp_path / "model")), Surroundings(tmp_path / "work", bucket.settings)
        )
        assert proxy.broken == 3
    source = done.manifest.source
    assert source.sha256 == hashlib.sha256(archive).hexdigest()
    assert source.bytes == len(archive)
    assert source.uri == f"{proxy.url}/artifacts/models/e1_3.tar.gz"
    assert source.etag
    assert "Signature" not in (tmp_path / "model/manifest.json").read_text()


def test_an_invalid_signature_is_a_refusal_that_hides_it(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    bucket.put("models/e1_3.tar.gz", pack_archive(tmp_path / "a.tar.gz", checkpoint).read_bytes())
    with Proxy(port(bucket.server.endpoint)) as proxy:
        url = presigned(bucket, proxy, "models/e1_3.tar.gz") + "0"
        with pytest.raises(errors.SourceRefused) as caught:
            publish(bucket, url, tmp_path)
    assert "Signature" not in str(caught.value)
    assert "models/e1_3.tar.gz" in str(caught.value)


def test_a_presigned_url_to_nothing_is_missing(bucket: Bucket, tmp_path: Path) -> None:
    with Proxy(port(bucket.server.endpoint)) as proxy, pytest.raises(errors.SourceMissing):
        publish(bucket, presigned(bucket, proxy, "models/e1_9.tar.gz"), tmp_path)


def test_an_archive_that_is_missing_in_s3_is_a_missing_source(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(errors.SourceMissing, match=r"e1_9\.tar\.gz"):
        publish(bucket, "s3://artifacts/models/e1_9.tar.gz", tmp_path)
