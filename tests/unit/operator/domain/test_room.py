"""Quotas, turns and the warm budget in the plan of one engine."""

from dataclasses import replace
from datetime import timedelta

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.capacity import Gpu, Quota, Taken
from engine_operator.domain.desired import Round
from engine_operator.domain.engine import Profile, ServingSpec, Strategy
from engine_operator.domain.observed import Phase
from engine_operator.domain.room import Standing, standing
from engine_operator.domain.windows import WarmWindow
from tests.unit.operator.domain.test_swap import gpu, rolled_to
from tests.unit.operator.domain.world import World, engine, of_type

ALWAYS = WarmWindow("0 0 * * *", "59 23 * * *")


def stands(world: World) -> Standing:
    """Where the engine stands after a round."""
    observed = world.observed()
    actions = world.round()
    return standing(world.status, actions, Round(world.desired(), observed, world.now, world.policy))


def test_a_rollout_waits_for_room_in_the_quota_says_so_and_goes_on_by_itself() -> None:
    world = World(quota=Quota(awake_engines=2), taken=Taken(2, 2, 0))
    world.settle()
    world.converted()
    world.settle()
    assert (world.service, world.phase()) == (None, "Converted")
    assert world.said("Progressing") == ("True", reasons.QUOTA_EXCEEDED)
    assert "quota.awakeEngines is 2" in world.condition("Progressing").message
    world.passes(hours=3)
    assert world.settle() == [], "waiting writes nothing"
    world.taken = Taken(1, 1, 0)
    world.settle()
    world.ready()
    world.settle()
    assert world.serving() == 3


def test_the_pod_that_is_replaced_counts_while_both_run() -> None:
    world = World(quota=Quota(pods=2))
    world.serves(3)
    world.taken = Taken(1, 1, 0)
    rolled_to(world, 4)
    assert world.said("Progressing") == ("True", reasons.QUOTA_EXCEEDED)
    assert (world.serving(), world.said("Available")[0]) == (3, "True")
    world.asleep()
    world.settle()
    assert world.service is not None
    assert world.service.model_revision == 4


def test_auto_swaps_where_the_quota_has_room_for_one_pod_only() -> None:
    world = gpu(Strategy.AUTO)
    world.quota = Quota(gpus=1)
    world.serves(3)
    rolled_to(world, 4)
    assert world.service is not None
    assert (world.service.model_revision, world.service.initial_scale) == (4, 0)


def test_a_failed_rollout_is_tried_again_within_the_quota_although_its_pod_is_still_there() -> None:
    world = World(quota=Quota(pods=2))
    world.serves(3)
    rolled_to(world, 4)
    world.crashed()
    world.settle()
    before = world.writes
    world.passes(minutes=1)
    world.settle()
    assert world.writes == before + 1


def test_a_window_wakes_nobody_beyond_the_quota_and_tells_it() -> None:
    world = World(spec=engine(warm_windows=(ALWAYS,)), quota=Quota(awake_engines=1))
    world.serves(3)
    world.asleep()
    world.revisions = [replace(one, held=None) for one in world.revisions]
    world.taken = Taken(1, 1, 0)
    assert of_type(world.settle(), act.HoldRevision) == []
    assert world.said("Degraded") == ("True", reasons.QUOTA_EXCEEDED)
    world.taken = Taken()
    (held,) = of_type(world.settle(), act.HoldRevision)
    assert isinstance(held, act.HoldRevision)
    assert held.replicas == 1
    assert world.said("Degraded")[0] == "False"


def test_an_engine_that_is_awake_keeps_its_window_however_many_others_are_called() -> None:
    world = World(spec=engine(warm_windows=(ALWAYS,)), quota=Quota(awake_engines=1))
    world.serves(3)
    assert world.latest().held == 1
    world.taken = Taken(4, 4, 0)
    assert of_type(world.settle(), act.HoldRevision) == []


def test_a_place_in_the_warm_budget_holds_what_serves_and_its_loss_lets_it_sleep() -> None:
    world = World()
    world.serves(3)
    world.kept = True
    world.settle()
    assert world.latest().held == 1
    world.kept = False
    world.settle()
    assert world.latest().held is None
    assert world.writes == 1, "the InferenceService is untouched"


def test_a_pinned_engine_is_kept_awake_without_any_budget() -> None:
    world = World(spec=engine(keep_warm=True))
    world.serves(3)
    assert world.latest().held == 1
    assert world.status.effective["keepWarm"] == "true"


def test_engines_of_a_higher_priority_that_wait_get_the_last_place() -> None:
    world = World()
    world.busy_conversions, world.ahead_conversions = world.policy.max_converting - 1, 1
    assert of_type(world.settle(), act.StartConversion) == []
    world.ahead_conversions = 0
    assert len(of_type(world.settle(), act.StartConversion)) == 1
    world.converted()
    world.busy_rollouts, world.ahead_rollouts = world.policy.max_rolling - 1, 1
    assert of_type(world.settle(), act.ApplyInferenceService) == []
    world.ahead_rollouts = 0
    assert len(of_type(world.settle(), act.ApplyInferenceService)) == 1


def test_an_engine_tells_the_others_what_it_waits_for_and_what_it_has() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.spec = replace(world.spec, priority=7)
    world.busy_conversions = world.policy.max_converting
    assert stands(world) == Standing(7, Taken(), Phase.CONVERTING)
    world.busy_conversions, world.busy_rollouts = 0, world.policy.max_rolling
    assert stands(world).waits is None
    world.converted()
    assert stands(world) == Standing(7, Taken(), Phase.ROLLING_OUT)
    world.busy_rollouts = 0
    assert stands(world) == Standing(7, Taken(1, 1, 1)), "a pod that is on its way counts"
    world.ready()
    world.settle()
    assert stands(world).taken == Taken(1, 1, 1)
    rolled_to(world, 4)
    assert stands(world).taken == Taken(1, 2, 2), "while both run"
    world.ready()
    world.settle()
    world.asleep()
    assert stands(world).taken == Taken()


def test_an_engine_that_its_quota_holds_up_takes_nobodys_turn() -> None:
    world = World(quota=Quota(pods=1), taken=Taken(1, 1, 0))
    world.settle()
    world.converted()
    world.settle()
    assert stands(world) == Standing(wants=Taken(1, 1, 0)), "those of a lower priority leave it the room"
    world.taken, world.busy_rollouts = Taken(), world.policy.max_rolling
    assert stands(world) == Standing(waits=Phase.ROLLING_OUT)


def test_a_wish_that_no_room_can_fulfil_holds_up_nobody() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.spec = replace(world.spec, serving=ServingSpec(profile=Profile.GPU, gpu=Gpu(count=2)))
    world.quota = Quota(gpus=1)
    world.settle()
    world.converted()
    world.settle()
    assert stands(world) == Standing()
    assert "this engine alone needs 2" in world.condition("Progressing").message


def test_auto_knows_the_gpu_by_the_name_that_people_gave_it() -> None:
    slice_ = Gpu("nvidia.com/mig-1g.10gb")
    world = gpu(Strategy.AUTO)
    world.spec = replace(world.spec, serving=ServingSpec(profile=Profile.GPU, gpu=slice_))
    world.serves(3)
    rolled_to(world, 4)
    told = f"0/1 nodes are available: 1 Insufficient {slice_.resource}."
    world.pod_of(world.latest().name, unschedulable=told)
    world.now += timedelta(seconds=61)
    world.settle()
    assert world.service is not None
    assert world.service.initial_scale == 0
