"""Work runs only while the Lease is held, and its loss ends it at once."""

import asyncio

import httpx
import pytest

from engine_operator.cluster.lease import Lease, LeaseName, LeaseTiming
from engine_operator.errors import LeaseLost
from engine_operator.loops.leader import Leader
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import consistently, eventually

TIMING = LeaseTiming(duration=3.0, renew_every=0.1, renew_deadline=2.0, look_every=0.1)


class Work:
    """Runs until it is cancelled, and remembers."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started = self.ended = 0
        self.error = error

    async def __call__(self) -> None:
        self.started += 1
        try:
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        finally:
            self.ended += 1


def leader(cluster: FakeCluster, name: str, work: Work) -> tuple[Leader, list[bool]]:
    """A leader, and what it told."""
    told: list[bool] = []
    lease = Lease(cluster.client(), LeaseName("ns", "operator", name), TIMING)
    return Leader(lease, work, told.append), told


async def end(task: "asyncio.Task[None]") -> None:
    """Cancel and wait."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_second_process_starts_only_when_the_first_has_ended() -> None:
    cluster, one, two = FakeCluster(), Work(), Work()
    first = asyncio.create_task(leader(cluster, "a", one)[0].run())
    await eventually(lambda: one.started == 1)
    second = asyncio.create_task(leader(cluster, "b", two)[0].run())
    await consistently(lambda: two.started == 0, for_=TIMING.duration * 1.5)
    await end(first)
    assert one.ended == 1
    await eventually(lambda: two.started == 1)
    await end(second)


async def test_work_ends_when_the_lease_cannot_be_renewed_and_starts_again_when_it_can() -> None:
    cluster, work = FakeCluster(), Work()
    leads, told = leader(cluster, "a", work)
    task = asyncio.create_task(leads.run())
    await eventually(lambda: work.started == 1)
    cluster.interfere = lambda _: httpx.Response(503)
    await eventually(lambda: work.ended == 1)
    assert told == [True, False]
    cluster.interfere = lambda _: None
    await eventually(lambda: work.started == 2)
    await end(task)


async def test_work_that_finds_the_lease_lost_is_no_defect() -> None:
    work = Work(ExceptionGroup("of a task group", [LeaseLost("another leads")]))
    task = asyncio.create_task(leader(FakeCluster(), "a", work)[0].run())
    await eventually(lambda: work.started >= 2)
    await end(task)


async def test_a_defect_of_the_work_ends_the_process_instead_of_leading_idly() -> None:
    with pytest.raises(ZeroDivisionError):
        await leader(FakeCluster(), "a", Work(ZeroDivisionError()))[0].run()
