"""Cold starts: what counts as one, its phases, and that each is written down once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from engine_operator.cluster.engine_status import read_engine_status, write_engine_status
from engine_operator.domain import actions as act
from engine_operator.domain.observed import PodState, Wake
from engine_operator.domain.wakes import phases_of
from tests.support.cases import case
from tests.unit.operator.domain.world import World, of_type


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def sleeping() -> World:
    world = World()
    world.serves()
    world.passes(hours=1)
    world.asleep()
    world.settle()
    return world


def wakes(world: World, phases: Mapping[str, float] | None = None, total: float = 60.0) -> PodState:
    """A call wakes it: the node comes after 20 s, the image after 25 s, and calls come through after `total`."""
    began = world.now
    world.pod_of(world.latest().name, created=began)
    world.settle()
    world.passes(seconds=total)
    world.pod_of(
        world.latest().name,
        ready=True,
        scheduled_at=began + seconds(20),
        started_at=began + seconds(25),
        ready_at=began + seconds(total),
        phases=phases or {},
    )
    return world.pods[0]


def test_a_wake_is_told_by_its_pods_conditions_however_late_it_is_seen() -> None:
    world = sleeping()
    pod = wakes(world)
    world.passes(minutes=2)
    world.settle()
    assert world.status.cold_starts == (Wake(pod.created, {"node": 20, "pull": 5, "ready": 35}),)


def test_what_the_process_tells_of_itself_divides_the_rest_and_the_sum_stays() -> None:
    world = sleeping()
    wakes(world, {"python": 1.5, "download": 8.25, "load": 3, "warm": 0.25})
    world.settle()
    (wake,) = world.status.cold_starts
    assert wake.phases == {
        "node": 20, "pull": 5, "python": 1.5, "download": 8.25, "load": 3, "warm": 0.25, "ready": 22
    }  # fmt: skip
    assert sum(wake.phases.values()) == 60


def _tells_every_ready_pod(status: object, observed: object) -> PodState | None:
    return next((pod for pod in observed.pods if pod.ready), None)  # type: ignore[attr-defined]


@case("D11", breaks="engine_operator.domain.wakes:wake_to_tell", naive=_tells_every_ready_pod)
def test_a_wake_is_written_once_and_a_pod_that_runs_on_is_no_other() -> None:
    world = sleeping()
    wakes(world)
    told = of_type(world.settle(), act.WriteStatus)
    assert len(told) == 1
    for _ in range(5):
        world.passes(minutes=3)
        assert world.round() == []
    assert len(world.status.cold_starts) == 1


def test_the_first_pod_of_a_rollout_and_one_that_joins_another_woke_nobody() -> None:
    world = World()
    world.serves()
    world.pod_of(world.latest().name, ready_at=world.now)
    world.settle()
    assert world.status.cold_starts == ()
    world.passes(hours=1)
    joined = replace(world.pods[0], name="second", created=world.now, ready_at=world.now)
    world.pods.append(joined)
    world.settle()
    assert world.status.cold_starts == ()


def test_the_last_twenty_are_kept_with_their_median_and_nearly_worst() -> None:
    world = sleeping()
    for total in range(31, 56):
        wakes(world, total=float(total))
        world.settle()
        world.asleep()
        world.passes(minutes=10)
        world.settle()
    totals = [sum(wake.phases.values()) for wake in world.status.cold_starts]
    assert totals == [float(total) for total in range(36, 56)]
    body = write_engine_status(world.status)["coldStarts"]
    # Nearest rank of 36 … 55: the 10th of 20 is 45, the 19th is 54.
    assert (body["p50Seconds"], body["p95Seconds"]) == (45.0, 54.0)
    assert read_engine_status(write_engine_status(world.status)).cold_starts == world.status.cold_starts


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ({"python": 1, "load": 2.5, "sauna": 9}, {"python": 1.0, "load": 2.5}),
        ({"python": "1", "load": -1, "warm": True, "download": None}, {}),
        (["python"], {}),
        (None, {}),
    ],
)
def test_only_numbers_of_known_phases_are_believed(told: object, read: Mapping[str, float]) -> None:
    assert phases_of(told) == read
