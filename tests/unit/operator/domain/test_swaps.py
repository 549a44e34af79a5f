"""The gap of a swap: told once, in status and with the event, and of swaps alone."""

from datetime import timedelta

from engine_operator.cluster.engine_status import read_engine_status, write_engine_status
from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.engine import Strategy
from engine_operator.domain.observed import EngineStatus, ServingStatus, Swap
from tests.support.cases import case
from tests.unit.operator.domain.test_swap import NO_GPU, gpu, rolled_to
from tests.unit.operator.domain.world import World


def swapped(after: timedelta) -> World:
    """One GPU, revision 4 takes the place of 3: its pod is ready so long after it was made."""
    world = gpu(Strategy.AUTO)
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(seconds=61)
    world.settle()
    name, made = world.latest().name, world.now
    world.pod_of(name, created=made)
    world.passes(seconds=after.total_seconds())
    world.pod_of(name, ready_at=world.now)
    world.ready()
    world.settle()
    assert world.serving() == 4
    return world


def as_before(before: EngineStatus, serving: ServingStatus | None, observed: object) -> Swap | None:
    """As those do that swap and say nothing."""
    return before.last_swap


@case("D7", breaks="engine_operator.domain.swaps:swap_between", naive=as_before)
def test_d7_the_gap_of_a_swap_is_reported() -> None:
    world = swapped(timedelta(seconds=41))
    swap = world.status.last_swap
    assert swap is not None
    assert (swap.revision, swap.replaced, swap.gap_seconds) == (4, 3, 41.0)
    told = [a.message for a in world.done if isinstance(a, act.EmitEvent) and a.reason == reasons.PROMOTED]
    assert "calls waited for 41 s at most" in told[-1]
    assert "calls waited" not in told[0], "the first revision took nobody's place"
    assert read_engine_status(write_engine_status(world.status)).last_swap == swap
    world.passes(hours=1)
    assert world.settle() == []


def test_a_rollout_beside_the_old_pod_has_no_gap() -> None:
    world = World()
    world.serves(3)
    rolled_to(world, 4)
    world.passes(seconds=9)
    world.ready()
    world.pod_of(world.latest().name, ready_at=world.now)
    world.settle()
    assert (world.serving(), world.status.last_swap) == (4, None)
