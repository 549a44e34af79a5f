"""Time alone is never a reason to write: whatever an engine does, minutes that only pass cost no action.

An elapsed time in any field of the status, told by any condition, would make each look a write: at fifty engines more
than a hundred a minute.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus, JobPhase, Usage
from engine_operator.domain.serval_facts import Existence, Verdict
from tests.support.cases import case
from tests.unit.operator.domain.world import CRASH, World


def nothing_yet(world: World) -> None:
    """It waits for its conversion, whose Job runs."""
    world.settle()
    world.job_is(JobPhase.RUNNING)


def rolling_out(world: World) -> None:
    world.settle()
    world.converted()


def serving(world: World) -> None:
    world.serves()


def asleep(world: World) -> None:
    world.serves()
    world.asleep()


def woken(world: World) -> None:
    asleep(world)
    world.settle()
    world.pod_of(world.latest().name, ready=False)


def waiting_for_a_node(world: World) -> None:
    woken(world)
    world.pod_of(world.latest().name, unschedulable="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def a_wake_that_failed(world: World) -> None:
    woken(world)
    world.pod_of(world.latest().name, failure=CRASH)


def a_rollout_that_waits_for_a_node(world: World) -> None:
    rolling_out(world)
    world.settle()
    world.pod_of(world.latest().name, unschedulable="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def suspended(world: World) -> None:
    world.serves()
    world.spec = replace(world.spec, suspended=True)


def gone(world: World) -> None:
    world.serves()
    world.existence = Existence.GONE


def not_servable(world: World) -> None:
    world.verdict = Verdict("ModelNotPersisted", "isModelPersisted is false")


def without_a_store(world: World) -> None:
    world.storage = Verdict("StoreUnreachable", "the store does not answer")


STATES = (
    nothing_yet,
    rolling_out,
    serving,
    asleep,
    woken,
    waiting_for_a_node,
    a_wake_that_failed,
    a_rollout_that_waits_for_a_node,
    suspended,
    gone,
    not_servable,
    without_a_store,
)


def quiet_while_time_passes(arrange: Callable[[World], None]) -> None:
    """Seven minutes are less than any limit that ends one of these states."""
    world = World()
    arrange(world)
    world.settle()
    for seconds in (0.5, 1, 2, 60, 180, 180):
        world.now += timedelta(seconds=seconds)
        assert world.round() == [], f"after {seconds} s more"


@pytest.mark.parametrize("arrange", STATES, ids=lambda one: one.__name__)
def test_time_that_only_passes_changes_no_status(arrange: Callable[[World], None]) -> None:
    quiet_while_time_passes(arrange)


def _tells_how_long(view: object) -> str:
    """A progress message with the seconds that it has taken so far."""
    return f"waiting since {view.round.now - view.round.observed.pods[0].created}"  # type: ignore[attr-defined]


@case("D11", breaks="engine_operator.domain.conditions:_progress_message", naive=_tells_how_long)
def test_d11_a_rollout_that_waits_for_its_node_is_not_told_again_and_again() -> None:
    quiet_while_time_passes(a_rollout_that_waits_for_a_node)


def _billed_at_each_look(status: EngineStatus, stage: object, round_: Round) -> EngineStatus:
    """An account that grows while its pods run."""
    return replace(status, usage=Usage("2026-11", int(round_.now.timestamp())))


@case("D11", breaks="engine_operator.domain.plan:_billed", naive=_billed_at_each_look)
def test_d11_the_cost_of_a_pod_that_runs_is_written_when_it_ends_and_not_before() -> None:
    world = World()
    world.serves()
    for _ in range(6):
        world.passes(minutes=10)
        assert world.round() == []
    world.asleep()
    world.settle()
    assert world.status.usage is not None
    assert world.status.usage.pod_seconds == 3600
