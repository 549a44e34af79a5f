"""Artifacts through a real S3 server: exact keys, checked bytes, a cache that is whole or empty."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from devcluster.certificates import Authority
from devcluster.s3 import S3Server
from nllb_predictor import cli, errors
from nllb_predictor.convert.manifest import Identity, Options, artifact_key
from nllb_predictor.convert.run import Converted, Request, Surroundings, convert
from nllb_predictor.store import ModelStore, StoreSettings
from nllb_predictor.store.objects import S3Objects, S3Uri
from tests.support.archives import write_archive
from tests.support.cases import case
from tests.support.checkpoints import Recipe, make_checkpoint, pack_archive
from tests.support.conversion import NOW, files
from tests.support.wire import Proxy

ENGINE = "66c4a1f09d3e5b7a8c0f1e21"
KEY = artifact_key(ENGINE, 3, Options())
HOME = f"s3://artifacts/live/home/{KEY}/"


@dataclass(frozen=True)
class Bucket:
    """The server, and a plain client behind the code's back."""

    server: S3Server
    client: Any

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(endpoint=self.server.endpoint, attempts=3, part_bytes=64 * 1024)

    def keys(self, prefix: str = "") -> list[str]:
        found = self.client.list_objects_v2(Bucket="artifacts", Prefix=prefix).get("Contents", [])
        return sorted(each["Key"] for each in found)

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket="artifacts", Key=key, Body=body)

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket="artifacts", Key=key)["Body"].read()
        return body


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
    client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1")
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


def publish(bucket: Bucket, source: str, tmp_path: Path, destination: str = HOME) -> Converted:
    request = Request(source, destination, Options(), Identity(ENGINE, 3, attempt="a1-7f3c9e"))
    return convert(request, Surroundings(tmp_path / "work", bucket.settings, now=lambda: NOW))


def test_a_conversion_publishes_the_attempt_and_then_the_manifest_that_names_it(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    stored = bucket.get(f"live/home/{KEY}/manifest.json")
    document = json.loads(stored)
    assert hashlib.sha256(stored).hexdigest() == done.manifest_sha256
    assert bucket.keys() == sorted(
        [
            f"live/home/{KEY}/manifest.json",
            *(f"live/home/{KEY}/a1-7f3c9e/{f['path']}" for f in document["files"]),
        ]
    )
    assert not list((tmp_path / "work").iterdir())


def test_a_repeat_of_the_same_attempt_keeps_the_manifest_that_others_have_pinned(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    first = publish(bucket, str(checkpoint), tmp_path)
    request = Request(str(checkpoint), HOME, Options(), Identity(ENGINE, 3, attempt="a1-7f3c9e"))
    later = Surroundings(tmp_path / "work", bucket.settings, now=lambda: NOW + timedelta(hours=1))
    assert convert(request, later).manifest_sha256 == first.manifest_sha256
    other = replace(request, identity=replace(request.identity, attempt="a2-000000"))
    assert convert(other, later).manifest_sha256 != first.manifest_sha256
    assert json.loads(bucket.get(f"live/home/{KEY}/manifest.json"))["attempt"] == "a2-000000"


def test_an_artifact_comes_back_as_it_was_published(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    model = ModelStore(bucket.settings).fetch(HOME, done.manifest_sha256, tmp_path / "cache")
    assert model.manifest == done.manifest
    assert files(model.folder) == {"manifest.json", *(entry.path for entry in done.manifest.files)}
    for entry in done.manifest.files:
        assert hashlib.sha256((model.folder / entry.path).read_bytes()).hexdigest() == entry.sha256


def test_a_second_start_needs_no_store(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    first = ModelStore(bucket.settings).fetch(HOME, done.manifest_sha256, tmp_path / "cache")
    nowhere = replace(bucket.settings, endpoint="http://127.0.0.1:9", attempts=1)
    assert ModelStore(nowhere).fetch(HOME, done.manifest_sha256, tmp_path / "cache").folder == first.folder


def test_a_truncated_cache_is_fetched_again(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    first = ModelStore(bucket.settings).fetch(HOME, done.manifest_sha256, tmp_path / "cache")
    (first.folder / "model.bin").write_bytes(b"")
    again = ModelStore(bucket.settings).fetch(HOME, done.manifest_sha256, tmp_path / "cache")
    assert (again.folder / "model.bin").stat().st_size == done.manifest.file("model.bin").bytes


def test_another_manifest_than_the_wanted_one_is_refused(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    publish(bucket, str(checkpoint), tmp_path)
    with pytest.raises(errors.ChecksumMismatch, match="0000"):
        ModelStore(bucket.settings).fetch(HOME, "0" * 64, tmp_path / "cache")


def test_a_changed_file_is_refused_and_leaves_no_cache(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    publish(bucket, str(checkpoint), tmp_path)
    key = f"live/home/{KEY}/a1-7f3c9e/model.bin"
    content = bytearray(bucket.get(key))
    content[5000] ^= 1
    bucket.put(key, bytes(content))
    with pytest.raises(errors.ChecksumMismatch, match=r"model\.bin"):
        ModelStore(bucket.settings).fetch(HOME, None, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_truncated_file_is_refused(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    publish(bucket, str(checkpoint), tmp_path)
    key = f"live/home/{KEY}/a1-7f3c9e/model.bin"
    bucket.put(key, bucket.get(key)[:-10])
    with pytest.raises(errors.ChecksumMismatch, match="bytes"):
        ModelStore(bucket.settings).fetch(HOME, None, tmp_path / "cache")


@case(
    "p68",
    breaks="nllb_predictor.store.objects:_client_error",
    naive=lambda error, uri: errors.StoreError("failed"),
)
def test_p68_an_empty_location_is_an_error_that_names_it(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(errors.ObjectMissing, match=r"s3://artifacts/live/home/nothing/manifest\.json"):
        ModelStore(bucket.settings).fetch("s3://artifacts/live/home/nothing/", None, tmp_path / "cache")


def test_p68_an_object_of_no_bytes_is_an_error_that_names_it(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("models/e1_1.tar.gz", b"")
    with pytest.raises(errors.BrokenArchive, match=r"s3://artifacts/models/e1_1\.tar\.gz.*0 bytes"):
        publish(bucket, "s3://artifacts/models/e1_1.tar.gz", tmp_path)
    bucket.put(f"live/home/{KEY}/manifest.json", b"")
    with pytest.raises(errors.ManifestInvalid):
        ModelStore(bucket.settings).fetch(HOME, None, tmp_path / "cache")


@case("p66", breaks="nllb_predictor.store.objects:S3Uri.below", naive=lambda self, name: self)
def test_p66_a_key_never_brings_its_siblings(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    """`e1_1` is a whole name: neither `e1_10` nor `e1_11` is read, with or without the ending."""
    archive = pack_archive(tmp_path / "good.tar.gz", checkpoint).read_bytes()
    empty = write_archive(tmp_path / "empty.tar.gz", []).read_bytes()
    for name in ("e1_1", "e1_10", "e1_11"):
        bucket.put(f"models/{name}.tar.gz", archive if name == "e1_1" else empty)
        for path in checkpoint.iterdir():
            content = path.read_bytes() if name == "e1_1" else b"{}"
            bucket.put(f"models/{name}/{path.name}", content)
    for number, uri in enumerate(("models/e1_1.tar.gz", "models/e1_1", "models/e1_1/")):
        done = publish(bucket, f"s3://artifacts/{uri}", tmp_path, f"s3://artifacts/out{number}/{KEY}/")
        assert done.manifest.source.uri == f"s3://artifacts/{uri}"


def test_p66_a_prefix_that_is_no_folder_finds_nothing(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    for path in checkpoint.iterdir():
        bucket.put(f"models/e1_10/{path.name}", path.read_bytes())
    with pytest.raises(errors.SourceMissing, match=r"models/e1_1/config\.json"):
        publish(bucket, "s3://artifacts/models/e1_1", tmp_path)


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


def test_a_failed_self_test_publishes_nothing(
    bucket: Bucket, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nllb_predictor.convert.selftest.LOGIT_TOLERANCE", -1.0)
    with pytest.raises(errors.SelfTestFailed):
        publish(bucket, str(checkpoint), tmp_path)
    assert bucket.keys() == []


def test_a_download_goes_on_after_broken_connections(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    with Proxy(port(bucket.server.endpoint)) as proxy:
        proxy.break_next(2, after=30_000)
        settings = replace(bucket.settings, endpoint=proxy.url, parallel=2)
        model = ModelStore(settings).fetch(HOME, done.manifest_sha256, tmp_path / "cache")
        assert proxy.broken == 2
    assert (
        hashlib.sha256((model.folder / "model.bin").read_bytes()).hexdigest()
        == done.manifest.file("model.bin").sha256
    )


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


def presigned(bucket: Bucket, proxy: Proxy, key: str, seconds: int = 3600) -> str:
    signed = Config(signature_version="s3v4")
    client = boto3.client("s3", endpoint_url=proxy.url, region_name="us-east-1", config=signed)
    url: str = client.generate_presigned_url(
        "get_object", Params={"Bucket": "artifacts", "Key": key}, ExpiresIn=seconds
    )
    client.close()
    return url


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


def test_a_store_that_does_not_answer_is_unreachable(bucket: Bucket, tmp_path: Path) -> None:
    nowhere = replace(bucket.settings, endpoint="http://127.0.0.1:9", attempts=2)
    with pytest.raises(errors.StoreUnreachable, match=r"127\.0\.0\.1:9"):
        ModelStore(nowhere).fetch(HOME, None, tmp_path / "cache")


def test_wrong_credentials_are_refused(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(errors.StoreRefused, match="AWS_SECRET_ACCESS_KEY"):
        ModelStore(bucket.settings).fetch(HOME, None, tmp_path / "cache")


def test_no_credentials_are_named(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(errors.StoreRefused, match="no complete credentials"):
        ModelStore(bucket.settings).fetch(HOME, None, tmp_path / "cache")


@case(
    "p69",
    breaks="nllb_predictor.store.settings:StoreSettings.from_env",
    naive=lambda environ: StoreSettings(),
)
def test_p69_a_private_ca_is_trusted_by_file_and_named_where_it_is_not(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    authority, other = Authority.create("own"), Authority.create("other")
    authority.server("s3", ["127.0.0.1"]).write(tmp_path, "server")
    authority.pair.write(tmp_path, "ca")
    other.pair.write(tmp_path, "other")
    with Proxy(port(bucket.server.endpoint), (tmp_path / "server.crt", tmp_path / "server.key")) as proxy:
        environ = {"SERVAL_LIVE_S3_ENDPOINT": proxy.url, "SERVAL_LIVE_S3_CA_FILE": str(tmp_path / "ca.crt")}
        model = ModelStore(StoreSettings.from_env(environ)).fetch(
            HOME, done.manifest_sha256, tmp_path / "cache"
        )
        assert model.manifest == done.manifest
        for file, said in ((str(tmp_path / "other.crt"), r"other\.crt"), (None, "system store")):
            settings = StoreSettings(endpoint=proxy.url, ca_file=file, attempts=1)
            with pytest.raises(errors.StoreUntrusted, match=said):
                ModelStore(settings).fetch(HOME, None, tmp_path / "none")
        url = presigned(bucket, proxy, "models/e1_3.tar.gz")
        around = Surroundings(
            tmp_path / "work", StoreSettings(ca_file=str(tmp_path / "other.crt"), attempts=1)
        )
        with pytest.raises(errors.StoreUntrusted, match=r"other\.crt"):
            convert(Request(url, str(tmp_path / "model")), around)


def test_a_ca_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreUntrusted, match=r"none\.crt does not exist"):
        S3Objects(StoreSettings(endpoint="https://127.0.0.1:9", ca_file=str(tmp_path / "none.crt")))


def test_an_object_replaced_during_a_download_is_never_mixed(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    bucket.put("x", b"a" * 100)
    objects = S3Objects(bucket.settings)
    facts = objects.head(S3Uri("artifacts", "x"))
    bucket.put("x", b"b" * 100)
    with pytest.raises(errors.StoreUnreachable, match="replaced"):
        list(objects.read_range(S3Uri("artifacts", "x"), 0, 10, facts.etag))


def test_two_processes_that_want_the_same_artifact_share_one_download(
    bucket: Bucket, checkpoint: Path, tmp_path: Path
) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    program = (
        "import sys, pathlib; from nllb_predictor.store import ModelStore, StoreSettings;"
        "store = ModelStore(StoreSettings(endpoint=sys.argv[1]));"
        "print(store.fetch(sys.argv[2], None, pathlib.Path(sys.argv[3])).folder)"
    )
    command = [sys.executable, "-c", program, bucket.server.endpoint, HOME, str(tmp_path / "cache")]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'predictor'}:{root / 'contract'}"}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    folders = {process.communicate(timeout=120)[0].decode().strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert folders == {str(tmp_path / "cache" / done.manifest_sha256)}
    assert not list((tmp_path / "cache").glob(".*.partial"))


def test_many_threads_use_one_store(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    done = publish(bucket, str(checkpoint), tmp_path)
    store, folders = ModelStore(bucket.settings), []
    threads = [
        threading.Thread(target=lambda: folders.append(store.fetch(HOME, None, tmp_path / "cache").folder))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert folders == [tmp_path / "cache" / done.manifest_sha256] * 4


def test_the_command_line_reaches_s3_by_flags(
    bucket: Bucket, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the operator's Job calls it, with the presigned URL in the environment."""
    bucket.put("models/e1_3.tar.gz", pack_archive(tmp_path / "a.tar.gz", checkpoint).read_bytes())
    with Proxy(port(bucket.server.endpoint)) as proxy:
        monkeypatch.setenv("SERVAL_LIVE_SOURCE_URL", presigned(bucket, proxy, "models/e1_3.tar.gz"))
        arguments = ["--engine-id", ENGINE, "--revision", "3", "--artifact-key", KEY, "--attempt", "a2-0"]
        where = ["--s3-endpoint", bucket.server.endpoint, "--work-dir", str(tmp_path / "work")]
        assert cli.main(["convert", "-", HOME, *arguments, *where]) == 0
    assert json.loads(bucket.get(f"live/home/{KEY}/manifest.json"))["attempt"] == "a2-0"


def test_a_destination_of_another_key_is_refused(bucket: Bucket, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="does not end with the artifact key"):
        publish(bucket, str(checkpoint), tmp_path, "s3://artifacts/live/home/e2/r1/ct2v1-00000000/")
    assert bucket.keys() == []


@pytest.mark.parametrize("uri", ["s3://artifacts", "s3://artifacts/", "s3:///key", "s3://A/b"])
def test_a_uri_without_a_key_is_refused(uri: str) -> None:
    with pytest.raises(errors.UsageError):
        S3Uri.parse(uri)


def port(url: str) -> int:
    found = urlsplit(url).port
    assert found is not None
    return found
