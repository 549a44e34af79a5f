"""The gap of a swap: told once, in status and with the event, and of swaps alone."""

from dataclasses import replace
from datetime import timedelta

from engine_operator.cluster.engine_status import read_engine_status, write_engine_status
from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.desired import Round
from engine_operator.domain.engine import Strategy
from engine_operator.domain.observed import EngineStatus, ServingStatus, Swap
from tests.support.cases import case
from tests.unit.operator.domain.test_swap import NO_GPU, gpu, rolled_to
from tests.unit.operator.domain.world import World, of_type


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


def removed(world: World) -> list[str]:
    """Knative revisions that the operator has deleted, in order."""
    return [a.revision for a in world.done if isinstance(a, act.DeleteRevision)]


def swapping() -> World:
    """Recreate on one GPU: all traffic is at revision 4, whose first pod waits for the GPU of revision 3."""
    world = gpu(Strategy.RECREATE)
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    return world


def leave_it_to_knative(round_: Round) -> tuple[act.Action, ...]:
    """As those do that wait until Knative's autoscaler removes the pod."""
    return ()


@case("D7", breaks="engine_operator.domain.swaps:make_way", naive=leave_it_to_knative)
def test_d7_the_revision_that_holds_the_gpu_goes_as_soon_as_its_heir_waits_for_it() -> None:
    world = swapping()
    old, heir = (one.name for one in world.revisions)
    world.settle()
    assert removed(world) == [old]
    assert [pod.knative_revision for pod in world.pods] == [heir]
    assert (world.serving(), world.said("Available")) == (3, ("True", reasons.WAKING))
    world.ready()
    world.settle()
    assert (world.serving(), world.phase()) == (4, "Serving")


def test_a_revision_whose_heir_has_a_node_stays() -> None:
    world = swapping()
    world.pod_of(world.latest().name, unschedulable=None)
    world.passes(minutes=1)
    world.settle()
    assert removed(world) == []


def test_where_the_route_does_not_say_that_gateways_know_they_are_given_some_seconds() -> None:
    world = swapping()
    old = world.revisions[0].name
    assert world.service is not None
    world.service = replace(world.service, routed=False)
    world.passes(seconds=4)
    world.settle()
    assert removed(world) == []
    world.passes(seconds=1)
    world.settle()
    assert removed(world) == [old]


def test_an_attempt_that_never_got_a_node_does_not_compete_with_the_swap_for_it() -> None:
    world = gpu(Strategy.AUTO)
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(seconds=61)
    world.settle()
    assert removed(world) == []
    serving, beside, heir = (one.name for one in world.revisions)
    world.pod_of(heir, unschedulable=NO_GPU)
    world.settle()
    assert removed(world) == [serving, beside]


def test_after_a_failed_swap_the_one_that_does_not_load_makes_way_for_the_one_before() -> None:
    world = swapping()
    world.settle()
    world.pod_of(world.latest().name, unschedulable=None)
    world.crashed()
    world.settle()
    failed, back = (one.name for one in world.revisions)
    assert (world.phase(), world.latest().model_revision) == ("BackingOff", 3)
    world.pod_of(back, unschedulable=NO_GPU)
    world.settle()
    assert removed(world)[-1] == failed
    assert [pod.knative_revision for pod in world.pods] == [back]


def test_a_rollout_beside_a_swapped_revision_that_wakes_is_left_alone() -> None:
    world = swapping()
    world.ready()
    world.settle()
    world.asleep()
    world.spec = replace(world.spec, rollout=replace(world.spec.rollout, strategy=Strategy.BLUE_GREEN))
    swapped_in = world.latest().name
    rolled_to(world, 5)
    world.pod_of(swapped_in, unschedulable=NO_GPU)
    world.settle()
    assert of_type(world.done, act.DeleteRevision) == []
    assert world.latest().name in [pod.knative_revision for pod in world.pods]
