"""Trouble on demand, and that it ends when it should."""

import asyncio

import httpx
import pytest

from tests.support.serval import Answer, Match, ServalStandIn
from tests.support.waiting import eventually
from tests.unit.serval_standin.conftest import API

ENGINES = f"{API}/engines"
NEXT = f"{API}/builds/next-finished"


@pytest.mark.parametrize(
    ("status", "empty"), [(401, True), (403, True), (500, True), (503, False), (408, False)]
)
async def test_a_broken_server_answers_as_serval_would(
    serval: ServalStandIn, ruth: httpx.AsyncClient, status: int, empty: bool
) -> None:
    serval.break_with(status)
    answer = await ruth.get(ENGINES)
    assert (answer.status_code, answer.content == b"") == (status, empty)
    serval.mend()
    assert (await ruth.get(ENGINES)).status_code == 200


async def test_a_fault_ends_after_its_time(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    serval.break_with(503, Match(for_=0.2))
    assert (await ruth.get(ENGINES)).status_code == 503

    async def mended() -> bool:
        return (await ruth.get(ENGINES)).status_code == 200

    await eventually(mended, timeout=2)


async def test_a_fault_takes_only_what_it_matches(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    fault = serval.break_with(503, Match(path=r"/builds\?created-after", method="GET"))
    assert (await ruth.get(ENGINES)).status_code == 200
    assert (await ruth.get(f"{API}/builds")).status_code == 200
    assert (await ruth.get(f"{API}/builds", params={"created-after": "2026-01-01"})).status_code == 503
    serval.mend(fault)
    assert (await ruth.get(f"{API}/builds", params={"created-after": "2026-01-01"})).status_code == 200


async def test_a_proxys_answers_are_possible(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    html = Answer(502, "<html>Bad gateway</html>", "text/html", retry_after=7)
    serval.break_with(html, Match(times=1))
    answer = await ruth.get(ENGINES)
    assert (answer.status_code, answer.text) == (502, "<html>Bad gateway</html>")
    assert (answer.headers["content-type"], answer.headers["retry-after"]) == ("text/html", "7")
    serval.break_with(Answer(200, "[]"), Match(path="engines", times=1))
    assert (await ruth.get(ENGINES)).json() == []


async def test_a_proxy_cuts_a_poll_after_a_while_unless_the_answer_comes_before(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    serval.break_with(504, Match(path="next-finished"), after=0.2)
    assert (await ruth.get(NEXT)).status_code == 504
    assert serval.open_polls == 0
    cursor = serval.run_build(serval.add_engine().id)
    serval.run_build(serval.add_engine().id)
    assert (await ruth.get(NEXT, params={"finished-after": cursor.id})).status_code == 200


async def test_a_delay_holds_the_request_back(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    serval.delay(0.4, Match(path="engines", times=1))
    await ruth.get(ENGINES)
    await ruth.get(ENGINES)
    slow, quick = serval.requests("engines")
    assert slow.seconds >= 0.4 > quick.seconds


async def test_a_reset_shows_no_status(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    serval.reset_connections(Match(times=1))
    with pytest.raises(httpx.TransportError):
        await ruth.get(ENGINES)
    assert (await ruth.get(ENGINES)).status_code == 200
    assert [entry.status for entry in serval.requests("engines")] == [None, 200]


async def test_waiting_polls_can_be_cut(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    task = asyncio.create_task(ruth.get(NEXT))
    await eventually(lambda: serval.open_polls == 1)
    assert serval.cut_polls() == 1
    with pytest.raises(httpx.TransportError):
        await task


async def test_down_refuses_and_cuts_and_up_remembers(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine, url = serval.add_engine(), serval.url
    task = asyncio.create_task(ruth.get(NEXT))
    await eventually(lambda: serval.open_polls == 1)
    serval.down()
    with pytest.raises(httpx.TransportError):
        await task
    with pytest.raises(httpx.ConnectError):
        await ruth.get(ENGINES)
    serval.run_build(engine.id)
    serval.up()
    assert serval.url == url
    assert (await ruth.get(f"{ENGINES}/{engine.id}")).json()["modelRevision"] == 1


async def test_the_journal_tells_who_asked_what(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    await ruth.get(f"{API}/builds", params={"created-after": "2026-01-01"})
    [entry] = serval.requests()
    assert (entry.method, entry.path, entry.query) == ("GET", f"{API}/builds", "created-after=2026-01-01")
    assert (entry.owner, entry.by_key, entry.status) == ("ruth", True, 200)
