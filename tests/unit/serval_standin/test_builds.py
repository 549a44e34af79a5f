"""Builds: start, states, cancel, lists, and the two polls that wait for a revision."""

import asyncio

import httpx
import pytest

from tests.support.serval import Ending, EngineSpec, JobState, ServalStandIn
from tests.support.waiting import eventually
from tests.unit.serval_standin.conftest import API, answers_408


async def test_a_build_goes_through_its_states(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    path = f"{API}/engines/{serval.add_engine().id}"
    engine_id = path.rpartition("/")[2]
    wanted = {"name": "nightly", "options": {"max_steps": 10}}
    made = await ruth.post(f"{path}/builds", json=wanted)
    assert made.status_code == 201
    build = made.json()
    assert (build["state"], build["revision"], build["options"]) == ("Pending", 1, {"max_steps": 10})
    assert {"message", "progress", "dateStarted", "dateFinished"}.isdisjoint(build)
    assert (await ruth.get(path)).json()["isBuilding"] is False

    serval.activate_build(engine_id)
    serval.progress_build(engine_id, 0.5)
    assert (await ruth.get(path)).json()["isBuilding"] is True
    active = (await ruth.get(f"{path}/current-build")).json()
    assert (active["state"], active["progress"], active["revision"]) == ("Active", 0.5, 3)

    serval.finish_build(engine_id)
    done = (await ruth.get(made.headers["location"])).json()
    assert (done["state"], done["message"], done["progress"]) == ("Completed", "Completed", 1)
    assert done["dateCreated"] <= done["dateStarted"] <= done["dateCompleted"] <= done["dateFinished"]
    assert [phase["stage"] for phase in done["phases"]] == ["Inference", "Train"]
    engine = (await ruth.get(path)).json()
    assert (engine["modelRevision"], engine["isBuilding"]) == (1, False)
    assert engine["corpusSize"] == done["executionData"]["trainCount"]
    assert (await ruth.get(f"{path}/current-build")).status_code == 204


async def test_execution_data_keeps_the_languages_of_the_build(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(source="es", target="kmr-Latn"))
    build = serval.run_build(engine.id)
    await ruth.patch(f"{API}/engines/{engine.id}", json={"targetLanguage": "fr"})
    data = (await ruth.get(f"{API}/engines/{engine.id}/builds/{build.id}")).json()["executionData"]
    assert data["engineTargetLanguageTag"] == "kmr-Latn"
    assert (data["resolvedSourceLanguage"], data["resolvedTargetLanguage"]) == ("spa_Latn", "kmr_Latn")
    assert (data["warnings"], data["diagnostics"]) == ([], [])


async def test_a_second_build_is_refused_while_one_runs_or_is_being_cancelled(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    path = f"{API}/engines/{engine.id}"
    assert (await ruth.post(f"{path}/builds")).status_code == 201
    assert (await ruth.post(f"{path}/builds")).status_code == 409
    serval.activate_build(engine.id)
    assert (await ruth.post(f"{path}/current-build/cancel")).json()["state"] == "Active"
    assert (await ruth.post(f"{path}/builds")).status_code == 409
    serval.finish_build(engine.id, ending=Ending(JobState.CANCELED))
    assert (await ruth.post(f"{path}/builds")).status_code == 201


async def test_a_pending_build_is_cancelled_at_once_and_none_gives_204(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    path = f"{API}/engines/{engine.id}/current-build/cancel"
    assert (await ruth.post(path)).status_code == 204
    serval.start_build(engine.id)
    assert (await ruth.post(path)).json()["state"] == "Canceled"


@pytest.mark.parametrize("state", [JobState.FAULTED, JobState.CANCELED])
async def test_a_failed_build_keeps_the_revision(
    serval: ServalStandIn, ruth: httpx.AsyncClient, state: JobState
) -> None:
    engine = serval.add_engine(EngineSpec(revision=3))
    build = serval.run_build(engine.id, ending=Ending(state, "out of luck"))
    assert (await ruth.get(f"{API}/engines/{engine.id}")).json()["modelRevision"] == 3
    shown = (await ruth.get(f"{API}/engines/{engine.id}/builds/{build.id}")).json()
    assert (shown["state"], shown["message"]) == (state.value, "out of luck")
    assert "dateCompleted" not in shown


async def test_a_restarted_build_is_pending_and_can_complete_from_there(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    serval.start_build(engine.id)
    serval.activate_build(engine.id)
    serval.restart_build(engine.id)
    shown = (await ruth.get(f"{API}/engines/{engine.id}/current-build")).json()
    assert (shown["state"], shown["message"]) == ("Pending", "Restarting")
    serval.finish_build(engine.id)
    assert (await ruth.get(f"{API}/engines/{engine.id}")).json()["modelRevision"] == 1


async def test_builds_of_all_engines_by_date(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engines = [serval.add_engine() for _ in range(3)]
    old = serval.start_build(engines[0].id)
    serval.start_build(engines[1].id, dated=False)
    serval.clock.step(10)
    new = serval.start_build(engines[2].id)
    serval.start_build(serval.add_engine(EngineSpec(owner="boaz")).id)
    everything = (await ruth.get(f"{API}/builds")).json()
    assert len(everything) == 3
    date = next(b["dateCreated"] for b in everything if b["id"] == old.id)
    later = (await ruth.get(f"{API}/builds", params={"created-after": date})).json()
    assert [b["id"] for b in later] == [new.id]
    without_offset = (await ruth.get(f"{API}/builds", params={"created-after": date.rstrip("Z")})).json()
    assert [b["id"] for b in without_offset] == [new.id]
    assert (await ruth.get(f"{API}/builds", params={"created-after": "yesterday"})).status_code == 400


async def test_build_lists_have_no_order(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine()
    made = [serval.run_build(engine.id).id for _ in range(8)]
    for path in (f"{API}/builds", f"{API}/engines/{engine.id}/builds"):
        orders = {tuple(b["id"] for b in (await ruth.get(path)).json()) for _ in range(4)}
        assert all(sorted(order) == sorted(made) for order in orders)
        assert len(orders) > 1


async def test_a_build_of_another_engine_or_a_malformed_id_is_404_on_ordinary_reads(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine, other = serval.add_engine(), serval.add_engine()
    build = serval.start_build(other.id)
    for build_id in (build.id, "nonsense", "0" * 24):
        assert (await ruth.get(f"{API}/engines/{engine.id}/builds/{build_id}")).status_code == 404


@pytest.mark.parametrize("name", ["min-revision", "minRevision"])
async def test_polling_a_build_waits_for_its_revision(
    serval: ServalStandIn, ruth: httpx.AsyncClient, name: str
) -> None:
    engine = serval.add_engine()
    build = serval.start_build(engine.id)
    path = f"{API}/engines/{engine.id}/builds/{build.id}"
    assert (await ruth.get(path, params={name: 1})).json()["revision"] == 1
    assert await answers_408(serval, ruth.get(path, params={name: 2}))
    waiting = await _waiting(serval, ruth.get(path, params={name: 2}))
    serval.activate_build(engine.id)
    assert (await waiting).json()["state"] == "Active"
    assert (await ruth.get(path, params={name: "x"})).status_code == 400


async def test_polling_an_unknown_build(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    path = f"{API}/engines/{serval.add_engine().id}/builds"
    assert (await ruth.get(f"{path}/{'0' * 24}", params={"min-revision": 2})).status_code == 404
    assert await answers_408(serval, ruth.get(f"{path}/{'0' * 24}", params={"min-revision": 1}))
    malformed = await ruth.get(f"{path}/nonsense", params={"min-revision": 1})
    assert (malformed.status_code, malformed.content) == (500, b"")


async def test_polling_a_build_that_is_deleted_meanwhile_is_404(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    build = serval.start_build(engine.id)
    path = f"{API}/engines/{engine.id}/builds/{build.id}"
    waiting = await _waiting(serval, ruth.get(path, params={"min-revision": 2}))
    serval.delete_engine(engine.id)
    assert (await waiting).status_code == 404


async def test_a_finished_build_gets_no_more_writes(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine()
    build = serval.run_build(engine.id)
    path = f"{API}/engines/{engine.id}/builds/{build.id}"
    assert await answers_408(serval, ruth.get(path, params={"min-revision": build.revision + 1}))


@pytest.mark.parametrize(("leaks", "status"), [(False, 404), (True, 200)])
async def test_foreign_builds_leak_only_behind_the_switch(
    serval: ServalStandIn, ruth: httpx.AsyncClient, leaks: bool, status: int
) -> None:
    mine = serval.add_engine()
    theirs = serval.add_engine(EngineSpec(owner="boaz"))
    build = serval.run_build(theirs.id)
    serval.configure(foreign_builds_leak=leaks)
    path = f"{API}/engines/{mine.id}/builds/{build.id}"
    assert (await ruth.get(path, params={"min-revision": 2})).status_code == status


async def test_following_the_current_build_sees_its_end(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    path = f"{API}/engines/{engine.id}/current-build"
    assert (await ruth.get(path, params={"min-revision": 2})).status_code == 204
    assert await answers_408(serval, ruth.get(path, params={"min-revision": 1}))
    waiting = await _waiting(serval, ruth.get(path, params={"min-revision": 1}))
    serval.start_build(engine.id)
    assert (await waiting).json()["state"] == "Pending"
    waiting = await _waiting(serval, ruth.get(path, params={"min-revision": 2}))
    serval.finish_build(engine.id)
    assert (await waiting).json()["state"] == "Completed"


async def test_following_a_current_build_that_is_deleted_gives_204(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    serval.start_build(engine.id)
    path = f"{API}/engines/{engine.id}/current-build"
    waiting = await _waiting(serval, ruth.get(path, params={"min-revision": 2}))
    serval.delete_engine(engine.id)
    assert (await waiting).status_code == 204


async def _waiting(
    serval: ServalStandIn, call: "asyncio._CoroutineLike[httpx.Response]"
) -> "asyncio.Task[httpx.Response]":
    """The call once the server holds it."""
    task = asyncio.create_task(call)
    await eventually(lambda: serval.open_polls == 1)
    return task
