"""Exactly one writer: what two processes with one Lease may and may not do."""

import httpx
import pytest

from engine_operator.cluster.lease import Lease, LeaseName, LeaseTiming
from engine_operator.errors import ClusterUnreachable, LeaseLost
from tests.support.cases import case
from tests.support.fake_cluster import FakeCluster

TIMING = LeaseTiming(duration=15, renew_every=5, renew_deadline=10, look_every=2)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(cluster: FakeCluster, identity: str, clock: Clock) -> Lease:
    """One process's view."""
    return Lease(cluster.client(), LeaseName("ns", "operator", identity), TIMING, clock)


def takes_whatever_it_sees(self: Lease, found: object, now: float) -> bool:
    return True


@case("A4", breaks="engine_operator.cluster.lease:Lease._may_take", naive=takes_whatever_it_sees)
async def test_a4_of_two_processes_one_leads_and_the_other_waits() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    assert await first.attempt()
    assert not await second.attempt()
    for _ in range(10):
        clock.now += 5
        assert await first.attempt()
        assert not await second.attempt()
    assert first.held
    assert not second.held


@case("A4", breaks="engine_operator.cluster.lease:Lease.check")
async def test_a4_whoever_could_not_renew_stops_writing_before_another_may_start() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    assert await first.attempt()
    assert not await second.attempt()
    clock.now += 10.0
    with pytest.raises(LeaseLost):
        first.check()
    assert not await second.attempt(), "five seconds are left for writes that were under way"
    clock.now += 5.1
    assert await second.attempt()
    second.check()


async def test_a_takeover_is_judged_by_the_candidates_own_clock_and_not_by_written_times() -> None:
    cluster, clock = FakeCluster(), Clock()
    assert await lease(cluster, "a", clock).attempt()
    record = next(iter(cluster.objects.values()))
    record["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"
    assert not await lease(cluster, "b", clock).attempt()


async def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    cluster, clock = FakeCluster(), Clock()
    first = lease(cluster, "a", clock)
    assert await first.attempt()
    await first.release()
    assert not first.held
    assert await lease(cluster, "b", clock).attempt()


async def test_giving_back_what_another_took_leaves_it_alone() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    assert await first.attempt()
    assert not await second.attempt()
    clock.now += 16
    assert await second.attempt()
    await first.release()
    assert next(iter(cluster.objects.values()))["spec"]["holderIdentity"] == "b"


async def test_of_two_that_take_over_in_the_same_moment_one_wins() -> None:
    cluster, clock = FakeCluster(), Clock()
    await lease(cluster, "old", clock).attempt()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    assert not await first.attempt()
    assert not await second.attempt()
    clock.now += 16
    raced = False

    def second_is_quicker(request: httpx.Request) -> httpx.Response | None:
        nonlocal raced
        if request.method == "PUT" and not raced:
            raced = True
            record = cluster.objects[request.url.path]
            record["spec"]["holderIdentity"] = "b"
            record["metadata"]["resourceVersion"] = "9999"
        return None

    cluster.interfere = second_is_quicker
    assert not await first.attempt()
    assert not first.held


async def test_an_api_that_is_away_raises_and_costs_no_lease_before_its_deadline() -> None:
    cluster, clock = FakeCluster(), Clock()
    first = lease(cluster, "a", clock)
    assert await first.attempt()
    cluster.interfere = lambda _: httpx.Response(503)
    clock.now += 6
    with pytest.raises(ClusterUnreachable):
        await first.attempt()
    assert first.held
    clock.now += 4
    assert not first.held


async def test_a_renewal_counts_from_its_start_since_the_answer_may_be_late() -> None:
    cluster, clock = FakeCluster(), Clock()
    first = lease(cluster, "a", clock)

    def slow(_: httpx.Request) -> None:
        clock.now += 6

    cluster.interfere = slow
    assert await first.attempt()
    assert not first.held, "two slow requests took longer than the deadline"


def test_no_write_outlives_the_lead() -> None:
    from engine_operator.settings import Settings

    for factor in (1.0, 1 / 30):
        settings = Settings(time_factor=factor)
        timing = settings.lease_timing()
        assert timing.renew_deadline + settings.limits().write_timeout <= timing.duration
        assert timing.renew_every * 2 <= timing.renew_deadline
        hangs = timing.duration - timing.renew_deadline
        assert timing.renew_every + hangs + timing.look_every < timing.renew_deadline
