"""Swaps: one GPU, or a rollout that waits for its first caller."""

from datetime import timedelta

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.engine import Profile, RolloutSpec, RolloutStart, ServingSpec, Strategy
from engine_operator.domain.observed import ConditionStatus, KnativeSettings
from engine_operator.domain.rollout import occupies_place
from tests.unit.operator.domain.world import CRASH, World, engine, of_type, strategy

NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def gpu(word: Strategy) -> World:
    return World(spec=strategy(word, serving=ServingSpec(profile=Profile.GPU)))


def rolled_to(world: World, revision: int) -> None:
    """A newer build is converted and its rollout begun."""
    world.wanted = revision
    world.settle()
    world.converted()
    world.settle()


def test_first_revision_proves_itself_with_a_pod_whatever_the_strategy() -> None:
    world = gpu(Strategy.RECREATE)
    world.publish(3)
    world.settle()
    assert world.service is not None
    assert world.service.initial_scale == 1


def test_recreate_counts_a_revision_only_when_a_pod_of_it_was_ready() -> None:
    world = gpu(Strategy.RECREATE)
    world.serves(3)
    rolled_to(world, 4)
    assert world.service is not None
    assert (world.service.initial_scale, world.service.all_traffic) == (0, world.latest().name)
    assert (world.serving(), world.phase()) == (3, "RollingOut")
    assert world.said("Available") == ("True", reasons.WAKING)
    world.ready()
    world.settle()
    assert (world.serving(), world.phase()) == (4, "Serving")


def test_failed_swap_brings_the_old_revision_back_the_same_way() -> None:
    world = gpu(Strategy.RECREATE)
    world.serves(3)
    rolled_to(world, 4)
    world.crashed()
    world.settle()
    assert world.service is not None
    assert (world.service.model_revision, world.service.initial_scale) == (3, 0)
    assert (world.serving(), world.phase()) == (3, "BackingOff")
    assert world.said("Available") == ("True", reasons.ASLEEP)
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == CRASH.reason
    world.passes(minutes=1)
    world.settle()
    assert world.service.model_revision == 4
    world.ready()
    world.settle()
    assert world.serving() == 4


def test_auto_swaps_when_the_new_pod_wants_the_gpu_of_the_old_one() -> None:
    world = gpu(Strategy.AUTO)
    world.serves(3)
    rolled_to(world, 4)
    name = world.latest().name
    world.pod_of(name, unschedulable=NO_GPU)
    world._mark(name, ConditionStatus.FALSE, "Unschedulable", NO_GPU)
    world.passes(seconds=59)
    assert of_type(world.settle(), act.ApplyInferenceService) == []
    world.passes(seconds=2)
    world.settle()
    assert world.service is not None
    assert (world.service.model_revision, world.service.initial_scale) == (4, 0)
    assert reasons.SWAPPING in [a.reason for a in world.done if isinstance(a, act.EmitEvent)]
    world.ready()
    world.settle()
    assert (world.serving(), world.phase()) == (4, "Serving")


def test_auto_waits_for_a_node_while_the_old_revision_sleeps() -> None:
    world = gpu(Strategy.AUTO)
    world.serves(3)
    world.asleep()
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(minutes=10)
    assert of_type(world.settle(), act.ApplyInferenceService) == []


def test_blue_green_never_swaps() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(minutes=10)
    assert of_type(world.settle(), act.ApplyInferenceService) == []


def test_rollout_that_waits_for_its_first_call_takes_no_place() -> None:
    world = World(spec=engine(rollout=RolloutSpec(start=RolloutStart.ON_FIRST_CALL)))
    world.serves(3)
    rolled_to(world, 4)
    assert world.phase() == "RollingOut"
    assert not occupies_place(world.status, world.service)
    world.passes(days=3)
    assert world.round() == []


def test_cluster_that_forbids_initial_scale_zero_gets_delete_and_create() -> None:
    world = gpu(Strategy.RECREATE)
    world.knative = KnativeSettings(allow_zero_initial_scale=False)
    world.serves(3)
    world.wanted = 4
    world.settle()
    world.converted()
    found = world.settle()
    assert of_type(found, act.DeleteInferenceService)
    assert world.service is not None
    assert (world.service.model_revision, world.service.initial_scale) == (4, 1)
    assert world.said("Progressing") == ("False", reasons.ZERO_INITIAL_SCALE_DISABLED)
    world.ready()
    world.settle()
    assert world.serving() == 4


def test_scaled_patience_of_auto_is_a_setting() -> None:
    from dataclasses import replace

    world = gpu(Strategy.AUTO)
    world.policy = replace(world.policy, auto_swap_after=timedelta(seconds=2))
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(seconds=3)
    assert len(of_type(world.settle(), act.ApplyInferenceService)) == 1
