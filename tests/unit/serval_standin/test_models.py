"""Model files: when they appear, how they are handed out, and how they go."""

import io
import tarfile
from pathlib import Path

import httpx
import pytest

from tests.support.serval import (
    EMPTY_ARCHIVE,
    Bucket,
    Ending,
    EngineSpec,
    EngineType,
    JobState,
    ServalStandIn,
)
from tests.support.serval.clock import TICKS_PER_SECOND, read
from tests.unit.serval_standin.conftest import API, client, s3_client


async def download_url(serval: ServalStandIn, engine_id: str, owner: str = "ruth") -> httpx.Response:
    async with client(serval, serval.add_key(owner)) as caller:
        return await caller.get(f"{API}/engines/{engine_id}/model-download-url")


async def test_a_model_can_be_fetched_by_its_presigned_url(stocked: ServalStandIn, archive: Path) -> None:
    content = archive.read_bytes()  # noqa: ASYNC240
    engine = stocked.add_engine()
    stocked.run_build(engine.id, archive)
    answer = (await download_url(stocked, engine.id)).json()
    assert answer["modelRevision"] == 1
    lifetime = read(answer["expiresAt"]) - stocked.clock.now()
    assert 3590 * TICKS_PER_SECOND < lifetime <= 3600 * TICKS_PER_SECOND
    assert f"/production/models/{engine.id}_1.tar.gz?" in answer["url"]
    async with httpx.AsyncClient() as nobody:
        fetched = await nobody.get(answer["url"])
    assert fetched.content == content
    assert fetched.headers["content-disposition"] == f"attachment; filename={engine.id}_1.tar.gz"


async def test_the_url_always_names_the_newest_revision(stocked: ServalStandIn, archive: Path) -> None:
    engine = stocked.add_engine(EngineSpec(revision=2))
    stocked.run_build(engine.id, archive)
    assert (await download_url(stocked, engine.id)).json()["modelRevision"] == 3


async def test_refusals_in_their_order(stocked: ServalStandIn, archive: Path) -> None:
    never_built = stocked.add_engine(EngineSpec(persisted=False))
    not_persisted = stocked.add_engine(EngineSpec(persisted=None, revision=1))
    smt = stocked.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    counter_lost = stocked.add_engine(EngineSpec(revision=1))
    stocked.change_engine(counter_lost.id, machine_revision=0)
    no_object = stocked.add_engine()
    stocked.run_build(no_object.id)
    foreign = stocked.add_engine(EngineSpec(owner="boaz", revision=1))
    expected = [
        ("0" * 24, 404),
        (foreign.id, 403),
        (never_built.id, 404),
        (not_persisted.id, 405),
        (smt.id, 405),
        (counter_lost.id, 400),
        (no_object.id, 500),
    ]
    got = [(engine_id, (await download_url(stocked, engine_id)).status_code) for engine_id, _ in expected]
    assert got == expected


async def test_echo_hands_out_a_constant(stocked: ServalStandIn) -> None:
    echo = stocked.add_engine(EngineSpec(type=EngineType.ECHO, target="en", revision=4))
    first = (await download_url(stocked, echo.id)).json()
    assert first["modelRevision"] == 1
    assert first["url"] == (await download_url(stocked, echo.id)).json()["url"]


async def test_without_a_bucket_downloads_are_405(serval: ServalStandIn) -> None:
    assert (await download_url(serval, serval.add_engine(EngineSpec(revision=1)).id)).status_code == 405


async def test_a_failed_build_leaves_the_file_of_an_unreleased_revision(
    stocked: ServalStandIn, bucket: Bucket, archive: Path
) -> None:
    engine = stocked.add_engine()
    stocked.run_build(engine.id, archive)
    stocked.run_build(engine.id, archive, Ending(JobState.FAULTED))
    assert keys(bucket) == {f"{engine.id}_1", f"{engine.id}_2"}
    assert stocked.engine(engine.id).model_revision == 1
    assert (await download_url(stocked, engine.id)).json()["modelRevision"] == 1


async def test_an_archive_appears_before_its_build_completes(
    stocked: ServalStandIn, bucket: Bucket, archive: Path
) -> None:
    engine = stocked.add_engine()
    stocked.start_build(engine.id)
    stocked.put_archive(engine.id, archive)
    assert keys(bucket) == {f"{engine.id}_1"}
    assert stocked.engine(engine.id).model_revision == 0


async def test_an_empty_archive_has_no_members(stocked: ServalStandIn, bucket: Bucket) -> None:
    engine = stocked.add_engine()
    stocked.run_build(engine.id, EMPTY_ARCHIVE)
    stored = s3_client(bucket).get_object(Bucket=bucket.name, Key=f"production/models/{engine.id}_1.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(stored["Body"].read()), mode="r:gz") as file:
        assert file.getmembers() == []


@pytest.mark.parametrize("spec", [EngineSpec(persisted=False), EngineSpec(type=EngineType.SMT_TRANSFER)])
async def test_engines_that_keep_no_models_take_no_archive(
    stocked: ServalStandIn, archive: Path, spec: EngineSpec
) -> None:
    engine = stocked.add_engine(spec)
    with pytest.raises(ValueError, match="keeps no models"):
        stocked.run_build(engine.id, archive)


async def test_a_removed_object_is_500_for_the_url_and_gone_for_one_handed_out_before(
    stocked: ServalStandIn, archive: Path
) -> None:
    engine = stocked.add_engine()
    stocked.run_build(engine.id, archive)
    url = (await download_url(stocked, engine.id)).json()["url"]
    stocked.archives.remove(engine.id, 1)
    assert (await download_url(stocked, engine.id)).status_code == 500
    async with httpx.AsyncClient() as nobody:
        assert (await nobody.get(url)).status_code in (403, 404)  # 403 where the key may not list


async def test_cleanup_keeps_revision_and_next_and_deletes_everything_else(
    stocked: ServalStandIn, bucket: Bucket, archive: Path
) -> None:
    engine, gone = stocked.add_engine(), stocked.add_engine()
    for _ in range(3):
        stocked.run_build(engine.id, archive)
    stocked.run_build(engine.id, archive, Ending(JobState.CANCELED))
    stocked.run_build(gone.id, archive)
    stocked.delete_engine(gone.id)
    s3 = s3_client(bucket)
    s3.put_object(Bucket=bucket.name, Key="production/models/foreign.tar.gz", Body=b"x")
    s3.put_object(Bucket=bucket.name, Key="production/builds/other.txt", Body=b"x")
    removed = stocked.clean_up()
    assert keys(bucket) == {f"{engine.id}_3", f"{engine.id}_4"}
    assert len(removed) == 4
    s3.head_object(Bucket=bucket.name, Key="production/builds/other.txt")


def keys(bucket: Bucket) -> set[str]:
    """Names below `models/` without folder and suffix."""
    listed = s3_client(bucket).list_objects_v2(Bucket=bucket.name, Prefix="production/models/")
    return {item["Key"].rpartition("/")[2].removesuffix(".tar.gz") for item in listed.get("Contents", [])}
