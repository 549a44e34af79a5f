"""Engines: creation, change, deletion, lists."""

import httpx
import pytest

from tests.support.serval import EngineSpec, EngineType, JobState, ServalStandIn
from tests.unit.serval_standin.conftest import API

NEW = {"sourceLanguage": "es", "targetLanguage": "kmr-Latn", "type": "nmt"}


async def test_a_created_engine_can_be_read_by_its_location(ruth: httpx.AsyncClient) -> None:
    made = await ruth.post(f"{API}/engines", json={**NEW, "name": "team:ruth:1", "isModelPersisted": True})
    assert made.status_code == 201
    read = (await ruth.get(made.headers["location"])).json()
    read.pop("dateCreated")
    assert read == {
        "id": made.json()["id"],
        "url": f"/api/v1/translation/engines/{made.json()['id']}",
        "name": "team:ruth:1",
        "sourceLanguage": "es",
        "targetLanguage": "kmr-Latn",
        "type": "nmt",
        "isModelPersisted": True,
        "isBuilding": False,
        "modelRevision": 0,
        "confidence": 0,
        "corpusSize": 0,
    }


@pytest.mark.parametrize(
    ("given", "shown"),
    [("Nmt", "nmt"), ("SmtTransfer", "smt-transfer"), ("smttransfer", "smt-transfer"), ("echo", "echo")],
)
async def test_types_are_read_in_three_spellings(ruth: httpx.AsyncClient, given: str, shown: str) -> None:
    made = await ruth.post(
        f"{API}/engines", json={"sourceLanguage": "en", "targetLanguage": "en", "type": given}
    )
    assert made.json()["type"] == shown


async def test_echo_wants_one_language(ruth: httpx.AsyncClient) -> None:
    assert (await ruth.post(f"{API}/engines", json={**NEW, "type": "echo"})).status_code == 400


async def test_new_languages_keep_the_revision_and_cancel_a_running_build(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(revision=2))
    build = serval.start_build(engine.id)
    answer = await ruth.patch(f"{API}/engines/{engine.id}", json={"targetLanguage": "fr"})
    assert (answer.status_code, answer.content) == (200, b"")
    read = (await ruth.get(f"{API}/engines/{engine.id}")).json()
    assert (read["sourceLanguage"], read["targetLanguage"], read["modelRevision"]) == ("en", "fr", 2)
    assert serval.backend.world.builds[build.id].state is JobState.CANCELED
    assert (await ruth.patch(f"{API}/engines/{engine.id}", json={"targetLanguage": ""})).status_code == 400


async def test_deleting_takes_the_builds_along(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine()
    serval.run_build(engine.id)
    serval.start_build(engine.id)
    serval.activate_build(engine.id)
    assert (await ruth.delete(f"{API}/engines/{engine.id}")).status_code == 200
    assert (await ruth.get(f"{API}/engines/{engine.id}")).status_code == 404
    assert (await ruth.get(f"{API}/builds")).json() == []


async def test_deleting_with_a_pending_build_is_404_and_keeps_the_engine(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    serval.start_build(engine.id)
    assert (await ruth.delete(f"{API}/engines/{engine.id}")).status_code == 404
    assert (await ruth.get(f"{API}/engines/{engine.id}")).status_code == 200
    assert (await ruth.post(f"{API}/engines/{engine.id}/current-build/cancel")).status_code == 200
    assert (await ruth.delete(f"{API}/engines/{engine.id}")).status_code == 200


async def test_lists_have_no_order(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    made = [serval.add_engine().id for _ in range(12)]
    orders = {tuple(e["id"] for e in (await ruth.get(f"{API}/engines")).json()) for _ in range(4)}
    assert all(sorted(order) == sorted(made) for order in orders)
    assert len(orders) > 1
    assert tuple(made) not in orders


async def test_queue_counts_waiting_builds_of_a_type(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    first, second = serval.add_engine(), serval.add_engine(EngineSpec(owner="boaz"))
    serval.start_build(first.id)
    assert serval.start_build(second.id).queue_depth == 2
    serval.start_build(serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER)).id)
    queue = (await ruth.get(f"{API}/engine-types/nmt/queues")).json()
    assert queue == {"size": 2, "engineType": "nmt"}
    assert (await ruth.get(f"{API}/engine-types/unknown/queues")).status_code == 404


async def test_a_short_list_lasts_as_often_as_asked(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    for _ in range(40):
        serval.add_engine()
    serval.shorten_lists(0)
    serval.shorten_lists(3)
    lengths = [len((await ruth.get(f"{API}/engines")).json()) for _ in range(3)]
    assert lengths == [0, 3, 40]
