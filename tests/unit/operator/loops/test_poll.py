"""The poll loop against a real Serval stand-in: what it announces, keeps and tells."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from engine_operator.loops.inbox import SourceKey
from engine_operator.loops.poll import Finished, Poller
from engine_operator.serval.auth import ApiKeyAuth
from engine_operator.serval.client import ServalClient
from engine_operator.serval.events import PollPolicy
from tests.support.serval import Ending, JobState, Match, ServalStandIn, Settings
from tests.support.waiting import consistently, eventually

POLICY = PollPolicy(settle=0.2, search=0.1, first_retry=0.05, longest_retry=0.1, refused_retry=0.1, trust=0.2)


@pytest.fixture
def serval() -> Iterator[ServalStandIn]:
    """A Serval whose polls end soon."""
    with ServalStandIn(Settings(long_poll_timeout=0.5)) as running:
        yield running


@asynccontextmanager
async def polling(
    serval: ServalStandIn, finished: Finished = lambda *_: None
) -> AsyncIterator[tuple[Poller, list[float]]]:
    """A poll that runs, and the sweeps that it asked for."""
    wakes: list[float] = []
    async with ServalClient(serval.url, ApiKeyAuth(serval.add_key())) as client:

        async def connect() -> ServalClient:
            return client

        poller = Poller(SourceKey("ns", "ruth"), connect, POLICY, wakes.append, finished)
        task = asyncio.create_task(poller.run())
        try:
            yield poller, wakes
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_b2_an_account_without_a_finished_build_is_never_polled(serval: ServalStandIn) -> None:
    async with polling(serval):
        await eventually(lambda: len(serval.requests("translation/builds")) >= 3)
        assert serval.requests("next-finished") == []


async def test_a_finished_build_becomes_the_cursor_and_the_next_one_an_event(serval: ServalStandIn) -> None:
    engine = serval.add_engine()
    first = serval.run_build(engine.id)
    async with polling(serval) as (poller, wakes):
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == first.id)
        await eventually(lambda: serval.open_polls == 1)
        wakes.clear()
        second = serval.run_build(engine.id)
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == second.id)
        await eventually(lambda: wakes == [POLICY.prompt, POLICY.settle])
        assert poller.announced() == {engine.id}
        assert poller.announced() == set()


async def test_whoever_measures_is_told_when_a_build_finished_and_of_none_that_failed(
    serval: ServalStandIn,
) -> None:
    engine = serval.add_engine()
    first = serval.run_build(engine.id)
    heard: list[tuple[str, datetime]] = []
    async with polling(serval, lambda one, at: heard.append((one, at))) as (poller, _):
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == first.id)
        await eventually(lambda: serval.open_polls == 1)
        failed = serval.run_build(engine.id, ending=Ending(JobState.FAULTED))
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == failed.id)
        await eventually(lambda: serval.open_polls == 1)
        second = serval.run_build(engine.id)
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == second.id)
        assert poller.cursor is not None
        assert heard == [(engine.id, poller.cursor.date_finished)]


async def test_b1_a_cursor_that_is_deleted_with_its_engine_is_noticed_and_replaced(
    serval: ServalStandIn,
) -> None:
    engine, other = serval.add_engine(), serval.add_engine()
    kept = serval.run_build(other.id)
    serval.run_build(engine.id)
    async with polling(serval) as (poller, wakes):
        await eventually(lambda: poller.cursor is not None and poller.cursor.engine_id == engine.id)
        wakes.clear()
        serval.delete_engine(engine.id)
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == kept.id)
        assert 0.0 in wakes, "what finished meanwhile was never announced"


async def test_b4_a_proxy_that_cuts_every_poll_costs_one_warning_and_no_event(
    serval: ServalStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine_operator.loops.poll")
    engine = serval.add_engine()
    serval.run_build(engine.id)
    async with polling(serval) as (poller, _):
        await eventually(lambda: poller.cursor is not None)
        fault = serval.break_with(504, Match(path="translation/"))
        await eventually(lambda: sum(one.levelno == logging.WARNING for one in caplog.records) == 1)
        await consistently(
            lambda: sum(one.levelno == logging.WARNING for one in caplog.records) == 1, for_=0.5
        )
        missed = serval.run_build(engine.id)
        serval.mend(fault)
        await eventually(lambda: poller.cursor is not None and poller.cursor.build_id == missed.id)
        assert any("answers again" in one.getMessage() for one in caplog.records)


async def test_a_serval_that_comes_back_wakes_the_sweep_at_once(serval: ServalStandIn) -> None:
    engine = serval.add_engine()
    serval.run_build(engine.id)
    async with polling(serval) as (poller, wakes):
        await eventually(lambda: poller.cursor is not None)
        serval.down()
        await eventually(lambda: poller._state.failures >= 2)
        wakes.clear()
        serval.up()
        await eventually(lambda: 0.0 in wakes)


async def test_refused_credentials_keep_the_cursor(serval: ServalStandIn) -> None:
    engine = serval.add_engine()
    build = serval.run_build(engine.id)
    async with polling(serval) as (poller, _):
        await eventually(lambda: poller.cursor is not None)
        fault = serval.break_with(401)
        await eventually(lambda: poller._state.failures >= 2)
        serval.mend(fault)
        await eventually(lambda: poller._state.failures == 0)
        assert poller.cursor is not None
        assert poller.cursor.build_id == build.id
