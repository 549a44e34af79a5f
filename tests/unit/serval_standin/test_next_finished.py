"""`next-finished`: its order, every cursor, and every way in which events get lost (letters a to g)."""

import asyncio

import httpx
import pytest

from tests.support.serval import Ending, EngineSpec, EngineType, JobState, Match, ServalStandIn
from tests.support.waiting import eventually
from tests.unit.serval_standin.conftest import API, SHORT_POLL, answers_408, client

NEXT = f"{API}/builds/next-finished"


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAULTED, JobState.CANCELED])
@pytest.mark.parametrize("kind", [EngineType.NMT, EngineType.SMT_TRANSFER])
async def test_every_ending_of_every_type_is_an_event(
    serval: ServalStandIn, ruth: httpx.AsyncClient, state: JobState, kind: EngineType
) -> None:
    first = serval.run_build(serval.add_engine().id)
    second = serval.run_build(serval.add_engine(EngineSpec(type=kind)).id, ending=Ending(state))
    answer = await ruth.get(NEXT, params={"finished-after": first.id})
    assert (answer.json()["id"], answer.json()["state"]) == (second.id, state.value)


async def test_a_present_match_comes_at_once_and_in_order_of_date_then_id(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    serval.clock.freeze()
    first = serval.run_build(serval.add_engine().id)
    same_time = [serval.run_build(serval.add_engine().id) for _ in range(3)]
    serval.clock.step(1)
    last = serval.run_build(serval.add_engine().id)
    assert len({build.date_finished for build in same_time}) == 1
    seen, cursor = [], first.id
    for _ in range(4):
        cursor = (await ruth.get(NEXT, params={"finished-after": cursor})).json()["id"]
        seen.append(cursor)
    assert seen == [*sorted(build.id for build in same_time), last.id]


async def test_dates_are_compared_in_milliseconds(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    """Two builds within one millisecond: the greater id counts as later even if it ended before."""
    serval.clock.freeze()
    early, late = serval.add_engine(), serval.add_engine()
    serval.start_build(early.id)
    serval.start_build(late.id)
    greater = serval.finish_build(late.id)
    serval.clock.step(0.0000002)
    smaller = serval.finish_build(early.id)
    assert smaller.date_finished == greater.date_finished
    answer = await ruth.get(NEXT, params={"finished-after": smaller.id})
    assert answer.json()["id"] == greater.id


async def test_the_poll_waits_then_answers_408(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    serval.configure(long_poll_timeout=0.2)
    answer = await ruth.get(NEXT)
    assert (answer.status_code, answer.json()["title"]) == (408, "Request Timeout")
    assert serval.open_polls == 0


async def test_a_build_that_ends_while_the_poll_waits_is_its_answer(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    waiting = await _waiting(serval, ruth)
    build = serval.run_build(engine.id)
    assert (await waiting).json()["id"] == build.id


async def test_other_owners_builds_are_no_events(
    serval: ServalStandIn, ruth: httpx.AsyncClient, boaz: httpx.AsyncClient
) -> None:
    serval.configure(long_poll_timeout=SHORT_POLL)
    waiting = await _waiting(serval, ruth)
    serval.run_build(serval.add_engine(EngineSpec(owner="boaz")).id)
    assert (await waiting).status_code == 408


async def test_a_408_with_a_good_cursor_loses_nothing(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    cursor = serval.run_build(serval.add_engine().id)
    engine = serval.add_engine()
    serval.in_gap(lambda: serval.run_build(engine.id))
    assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": cursor.id}))
    answer = await ruth.get(NEXT, params={"finished-after": cursor.id})
    assert answer.json()["engine"]["id"] == engine.id


async def test_loss_a_without_a_cursor_the_gap_between_two_polls_is_lost(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    serval.in_gap(lambda: serval.run_build(engine.id))
    assert await answers_408(serval, ruth.get(NEXT))
    assert serval.engine(engine.id).model_revision == 1
    assert await answers_408(serval, ruth.get(NEXT))


async def test_loss_b_a_cursor_deleted_with_its_engine_becomes_now(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    doomed, other = serval.add_engine(), serval.add_engine()
    cursor = serval.run_build(doomed.id)
    serval.run_build(other.id)
    serval.delete_engine(doomed.id)
    serval.clock.step(1)
    assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": cursor.id}))
    waiting = await _waiting(serval, ruth, cursor.id)
    later = serval.run_build(other.id)
    assert (await waiting).json()["id"] == later.id


async def test_loss_c_an_unfinished_cursor_becomes_now(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    running = serval.start_build(serval.add_engine().id)
    serval.run_build(serval.add_engine().id)
    serval.clock.step(1)
    assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": running.id}))


async def test_loss_d_of_two_ends_in_one_batch_only_the_last_is_seen(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    serval.clock.freeze()
    cursor = serval.run_build(serval.add_engine().id)
    engines = [serval.add_engine().id, serval.add_engine().id]
    for engine_id in engines:
        serval.start_build(engine_id)
    waiting = await _waiting(serval, ruth, cursor.id)
    first, last = serval.finish_together(dict.fromkeys(engines))
    assert (await waiting).json()["id"] == last.id
    assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": last.id}))
    assert (await ruth.get(NEXT, params={"finished-after": cursor.id})).json()["id"] == first.id


async def test_two_ends_in_two_batches_are_both_seen(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    cursor = serval.run_build(serval.add_engine().id)
    engines = [serval.add_engine().id, serval.add_engine().id]
    waiting = await _waiting(serval, ruth, cursor.id)
    first = serval.run_build(engines[0])
    serval.clock.step(1)
    last = serval.run_build(engines[1])
    assert (await waiting).json()["id"] == first.id
    assert (await ruth.get(NEXT, params={"finished-after": first.id})).json()["id"] == last.id


async def test_loss_e_a_late_commit_with_an_earlier_date_is_lost(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    slow, quick = serval.add_engine(), serval.add_engine()
    cursor = serval.run_build(serval.add_engine().id)
    serval.start_build(slow.id)
    serval.clock.step(1)
    held = serval.finish_uncommitted(slow.id)
    assert serval.engine(slow.id).model_revision == 0
    serval.clock.step(1)
    serval.run_build(quick.id)
    seen = (await ruth.get(NEXT, params={"finished-after": cursor.id})).json()
    assert seen["engine"]["id"] == quick.id
    serval.configure(long_poll_timeout=SHORT_POLL)
    waiting = await _waiting(serval, ruth, seen["id"])
    serval.commit_build(held.id)
    assert (await waiting).status_code == 408
    assert serval.engine(slow.id).model_revision == 1


async def test_loss_f_a_clock_that_stepped_back_hides_builds(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    cursor = serval.run_build(serval.add_engine().id)
    serval.clock.step(-60)
    serval.run_build(serval.add_engine().id)
    assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": cursor.id}))


async def test_loss_g_deleting_an_engine_is_no_event(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine()
    serval.start_build(engine.id)
    serval.activate_build(engine.id)
    serval.configure(long_poll_timeout=SHORT_POLL)
    waiting = await _waiting(serval, ruth)
    serval.delete_engine(engine.id)
    assert (await waiting).status_code == 408


async def test_unknown_and_foreign_cursors_are_now_and_no_error(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    foreign = serval.run_build(serval.add_engine(EngineSpec(owner="boaz")).id)
    serval.run_build(serval.add_engine().id)
    serval.clock.step(1)
    for cursor in (foreign.id, "0" * 24):
        assert await answers_408(serval, ruth.get(NEXT, params={"finished-after": cursor}))


async def test_a_malformed_cursor_is_500_with_an_empty_body(ruth: httpx.AsyncClient) -> None:
    answer = await ruth.get(NEXT, params={"finished-after": "nonsense"})
    assert (answer.status_code, answer.content) == (500, b"")


async def test_a_second_terminal_write_is_a_second_event(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine()
    serval.start_build(engine.id)
    held = serval.finish_uncommitted(engine.id)
    waiting = await _waiting(serval, ruth)
    serval.finish_build(engine.id, ending=Ending(JobState.CANCELED))
    assert (await waiting).json()["state"] == "Canceled"
    serval.commit_build(held.id)
    assert (await ruth.get(f"{API}/engines/{engine.id}/builds/{held.id}")).json()["state"] == "Completed"


async def test_a_poll_past_the_request_limit_is_499_without_type_and_title(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    serval.configure(long_poll_timeout=30, request_timeout=0.2)
    answer = await ruth.get(NEXT)
    assert answer.status_code == 499
    assert set(answer.json()) == {"status", "traceId"}


async def test_a_caller_that_leaves_ends_its_poll(serval: ServalStandIn) -> None:
    serval.configure(long_poll_timeout=30)
    async with client(serval, serval.add_key()) as caller:
        task = await _waiting(serval, caller)
        task.cancel()
    await eventually(lambda: serval.open_polls == 0)


@pytest.mark.parametrize("status", [499, 500, 503, 504])
async def test_a_poll_can_be_answered_with_any_trouble(
    serval: ServalStandIn, ruth: httpx.AsyncClient, status: int
) -> None:
    serval.break_with(status, Match(path="next-finished", times=1))
    assert (await ruth.get(NEXT)).status_code == status
    assert await answers_408(serval, ruth.get(NEXT))


async def _waiting(
    serval: ServalStandIn, caller: httpx.AsyncClient, cursor: str | None = None
) -> "asyncio.Task[httpx.Response]":
    """A poll that the server holds."""
    params = {"finished-after": cursor} if cursor is not None else {}
    task = asyncio.create_task(caller.get(NEXT, params=params))
    await eventually(lambda: serval.open_polls == 1)
    return task
