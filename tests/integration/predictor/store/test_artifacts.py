"""Artifacts through a real S3 server: exact keys, checked bytes, a cache that is whole or empty."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from devcluster.certificates import Authority
from nllb_predictor import cli, errors
from nllb_predictor.convert.manifest import Identity, Options
from nllb_predictor.convert.run import Request, Surroundings, convert
from nllb_predictor.store import ModelStore, StoreSettings
from nllb_predictor.store.objects import S3Objects, S3Uri
from tests.integration.predictor.store.bucket import ENGINE, HOME, KEY, Bucket, port, presigned, publish
from tests.support.archives import write_archive
from tests.support.cases import case
from tests.support.checkpoints import pack_archive
from tests.support.conversion import NOW, files
from tests.support.wire import Proxy


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
