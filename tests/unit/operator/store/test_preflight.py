"""What is wrong with a store's Secret is told by name and spelling; whose folder it is, by its mark."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from engine_operator.errors import StoreInUse, StoreMisconfigured
from engine_operator.store.address import StoreAddress
from engine_operator.store.artifacts import ArtifactStore
from engine_operator.store.owner import OWNER, Owner, claim
from engine_operator.store.preflight import store_keys

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
US = Owner("cluster-a", "ns", "ruth")


def secret(**values: str) -> dict[str, Any]:
    """A Secret object."""
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}


def test_keys_are_read_without_the_white_space_that_files_bring() -> None:
    keys = store_keys("store", secret(AWS_ACCESS_KEY_ID="id\n", AWS_SECRET_ACCESS_KEY=" key "))
    assert (keys.access_key, keys.secret_key, keys.session_token) == ("id", "key", None)
    assert "key" not in repr(keys).replace("access_key", "")


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (None, ["'store'", "does not exist", "AWS_ACCESS_KEY_ID"]),
        (secret(AWS_SECRET_ACCESS_KEY="k"), ["'store'", "lacks the key AWS_ACCESS_KEY_ID"]),
        (
            secret(AWS_SECRET_ACCESS_KEY="k", **{"aws-access-key-id": "x"}),
            ["'aws-access-key-id'", "must be spelled AWS_ACCESS_KEY_ID"],
        ),
        (secret(AWS_SECRET_ACCESS_KEY="k", AWS_ACCESS_KEY_ID=""), ["AWS_ACCESS_KEY_ID is empty"]),
    ],
)
def test_the_exact_missing_thing_is_named(found: dict[str, Any] | None, parts: list[str]) -> None:
    with pytest.raises(StoreMisconfigured) as caught:
        store_keys("store", found)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("uri", ["bucket/folder", "s3://", "https://x/y"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(StoreMisconfigured, match="uri"):
        _ = StoreAddress(uri).bucket


def test_bucket_and_folder_of_an_address() -> None:
    assert (StoreAddress("s3://b").bucket, StoreAddress("s3://b").folder) == ("b", "")
    assert StoreAddress("s3://b/x/y/").folder == "x/y/"


class Memory:
    """A store that holds small objects."""

    installation = "abc-ns-ruth"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes = 0

    async def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    async def write(self, name: str, content: bytes) -> None:
        self.objects[name] = content
        self.writes += 1


async def claimed(memory: Memory, owner: Owner, now: datetime) -> bool:
    """Claim an installation in memory."""
    return await claim(cast(ArtifactStore, memory), owner, now)


async def test_a_free_folder_becomes_ours_and_its_mark_is_renewed_in_time_but_not_each_time() -> None:
    memory = Memory()
    assert await claimed(memory, US, NOON)
    assert await claimed(memory, US, NOON + timedelta(hours=5))
    assert memory.writes == 1
    assert await claimed(memory, US, NOON + timedelta(hours=7))
    assert memory.writes == 2


async def test_a_living_foreign_clusters_folder_is_refused_by_name_and_an_abandoned_one_taken() -> None:
    memory = Memory()
    await claimed(memory, Owner("cluster-b", "other", "naomi"), NOON)
    with pytest.raises(StoreInUse, match="cluster-b"):
        await claimed(memory, US, NOON + timedelta(hours=24))
    assert await claimed(memory, US, NOON + timedelta(hours=25))


async def test_two_sources_of_one_cluster_may_share_a_folder_but_neither_collects_there() -> None:
    memory = Memory()
    assert await claimed(memory, Owner("cluster-a", "ns", "naomi"), NOON)
    assert not await claimed(memory, US, NOON + timedelta(hours=1))
    assert memory.writes == 1


async def test_a_mark_that_cannot_be_read_is_written_anew() -> None:
    memory = Memory()
    memory.objects[OWNER] = b"garbage"
    assert await claimed(memory, US, NOON)
    assert b"cluster-a" in memory.objects[OWNER]


@pytest.mark.parametrize("key", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_a_value_that_no_header_can_hold_is_named_by_its_key_alone(key: str) -> None:
    good = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "token\n"}
    assert store_keys("store", secret(**good)).session_token == "token"
    with pytest.raises(StoreMisconfigured, match=key) as refused:
        store_keys("store", secret(**good | {key: "hidden\nline"}))
    assert "hidden" not in str(refused.value)
