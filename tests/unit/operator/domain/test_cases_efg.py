"""Handed situations about calls, nodes and upgrades, as far as they are decisions: E1, E2, F3, F5, G9, G10, p74."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.backoff import Backoff
from engine_operator.domain.budget import CALLER_CUT, TimeChain, WakeBudget, broken, first_byte, time_chain
from engine_operator.domain.desired import Goal, Round, template_hash
from engine_operator.domain.effective import Defaults
from engine_operator.domain.engine import Profile, ServingSpec, Strategy
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    JobPhase,
    KnativeSettings,
    Phase,
    ProcessFailure,
    RevisionState,
    ServiceState,
    TargetStatus,
    Wake,
)
from engine_operator.domain.rollout import template
from engine_operator.domain.wakes import wake_of
from engine_operator.profiles import defaults
from tests.support.cases import case
from tests.unit.operator.domain.test_cases_d import whatever_differs
from tests.unit.operator.domain.test_swap import gpu, rolled_to
from tests.unit.operator.domain.world import DEFAULTS, POLICY, World, engine, of_type

PLAIN = Defaults({})
CALLERS = [timedelta(seconds=30), timedelta(seconds=60), timedelta(seconds=300)]
"""When callers give up."""


def as_long_as_a_caller(budget: WakeBudget, delay: timedelta, window: timedelta, *_: object) -> TimeChain:
    """As those do who take the client's time-out for the engine's."""
    minute, second = timedelta(minutes=1), timedelta(seconds=1)
    return TimeChain(minute, minute, minute, minute, minute, second, minute, window, None, None)


@case("E1", breaks="engine_operator.domain.budget:time_chain", naive=as_long_as_a_caller)
@pytest.mark.parametrize("patience", CALLERS)
def test_e1_a_wake_is_held_longer_than_its_caller_waits_and_stays_for_the_next_try(
    patience: timedelta,
) -> None:
    cold = timedelta(seconds=200)
    world = World(knative=KnativeSettings(max_revision_timeout_seconds=900, response_start_seconds=0))
    world.serves(3)
    applied = of_type(world.done, act.ApplyInferenceService)[0]
    assert isinstance(applied, act.ApplyInferenceService)
    held = timedelta(seconds=applied.template.response_start_seconds)
    assert held >= max(cold, patience), "the call that was left in the activator goes on without its caller"
    stays = applied.template.serving.scale_down_delay
    ready, returns = cold, max(cold, patience) + timedelta(seconds=60)
    assert ready + stays > returns, "who comes back a minute after giving up meets a warm engine"
    chain = time_chain(world.policy.budget, stays, PLAIN.window, 900, 0)
    assert chain.hold < CALLER_CUT
    assert chain.retry_after < stays
    assert broken(chain) == ()


@case("p74", breaks="engine_operator.domain.budget:first_byte", naive=lambda response, start: response)
@pytest.mark.parametrize(
    ("start", "cold_start", "cut"),
    [(None, 90, False), (None, 400, True), (300, 400, True), (0, 400, False), (900, 400, False)],
)
def test_p74_knatives_own_limit_for_the_first_byte_is_known_and_told_with_what_lifts_it(
    start: int | None, cold_start: int, cut: bool
) -> None:
    chain = time_chain(WakeBudget(), PLAIN.scale_down_delay, PLAIN.window, 900, start)
    assert chain.response_start == timedelta(minutes=15)
    assert (timedelta(seconds=cold_start) > chain.first_byte) is cut
    if cut:
        assert chain.start_warning is not None
        assert '"revision-response-start-timeout-seconds":"0"' in chain.start_warning
    assert first_byte(timedelta(seconds=200), start) == timedelta(seconds=200), (
        "a shorter time-out goes first"
    )


UNRESOLVED = 'Unable to fetch image "registry.example/predictor:7": failed to resolve image to digest: 401 Unauthorized'


@case("E2", breaks="engine_operator.domain.rollout:failure_of", naive=lambda revision, service, round_: None)
def test_e2_an_image_that_knatives_controller_cannot_resolve_is_told_in_its_words() -> None:
    world = World()
    world.serves(3)
    rolled_to(world, 4)
    world.pods = [p for p in world.pods if p.knative_revision != world.latest().name]
    world._mark(world.latest().name, ConditionStatus.FALSE, "ContainerMissing", UNRESOLVED)
    world.settle()
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.IMAGE_UNRESOLVABLE
    assert UNRESOLVED in world.condition("Degraded").message
    assert (world.serving(), world.said("Available")[0]) == (3, "True")


NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def after_five_minutes(
    revision: RevisionState, service: ServiceState, round_: Round
) -> ProcessFailure | None:
    """As operators do with a number of their own."""
    late = round_.now - revision.created > timedelta(seconds=300)
    waits = revision.ready is ConditionStatus.FALSE
    return ProcessFailure(reasons.REVISION_FAILED, "it took too long") if late and waits else None


@case("F3", breaks="engine_operator.domain.rollout:failure_of", naive=after_five_minutes)
def test_f3_nine_minutes_of_node_image_and_model_run_into_no_limit() -> None:
    world = gpu_world()
    world.publish(3)
    world.settle()
    name = world.latest().name
    world.pod_of(name, unschedulable=NODE)
    world._mark(name, ConditionStatus.FALSE, "Unschedulable", NODE)
    for _ in range(9):
        world.passes(minutes=1)
        world.settle()
        assert world.phase() == "RollingOut"
    (applied,) = of_type(world.done, act.ApplyInferenceService)
    assert isinstance(applied, act.ApplyInferenceService)
    assert applied.template.progress_deadline_seconds > 9 * 60
    world.ready()
    world.settle()
    assert (world.serving(), world.writes) == (3, 1)


@case("F3", breaks="engine_operator.domain.wakes:wake_of", naive=lambda pod: Wake(pod.created, {}))
def test_f3_each_phase_of_a_wake_stands_in_the_status() -> None:
    world = gpu_world()
    world.serves(3)
    world.asleep()
    world.passes(hours=1)
    name, born = world.latest().name, world.now
    world.pod_of(name, created=born)
    scheduled, started, ready = (born + timedelta(minutes=m) for m in (5, 8, 9))
    world.now = ready
    world.pod_of(name, ready=True, scheduled_at=scheduled, started_at=started, ready_at=ready)
    world.settle()
    (wake,) = world.status.cold_starts
    assert wake == wake_of(world.pods[0])
    assert dict(wake.phases) == {"node": 300.0, "pull": 180.0, "ready": 60.0}


def gpu_world() -> World:
    return World(spec=engine(serving=ServingSpec(profile=Profile.GPU)))


FULL = ProcessFailure(
    "ModelUnloadable", "CTranslate2 cannot open the model: CUDA failed with error out of memory", 22
)


@case("F5", breaks="engine_operator.domain.serving:still_held", naive=lambda pod, round_: False)
def test_f5_a_gpu_that_the_old_pod_still_frees_is_no_failure_of_the_new_model() -> None:
    world = gpu(Strategy.RECREATE)
    world.serves(3)
    rolled_to(world, 4)
    name, ended = world.latest().name, world.now
    world.pods = []
    for second in range(0, 20, 5):
        world.now = ended + timedelta(seconds=second)
        world.pod_of(name, failure=FULL, ready=False, created=ended, scheduled_at=ended)
        world._mark(name, ConditionStatus.FALSE, "ExitCode22", "Container failed with: .")
        world.settle()
        assert world.phase() == "RollingOut"
    assert world.status.last_failure is None
    assert world.jobs == {} or of_type(world.settle(), act.StartConversion) == []
    world.ready()
    world.settle()
    assert (world.serving(), world.said("Degraded")[0]) == (4, "False")
    assert reasons.ROLLED_BACK not in [a.reason for a in world.done if isinstance(a, act.EmitEvent)]


@case(
    "F5",
    breaks="engine_operator.domain.serving:still_held",
    naive=lambda pod, round_: pod.failure is not None,
)
def test_f5_a_model_that_never_fits_is_a_failure_after_a_short_while() -> None:
    world = gpu(Strategy.RECREATE)
    world.serves(3)
    rolled_to(world, 4)
    world.crashed(FULL)
    world.passes(minutes=3)
    world.settle()
    assert world.status.last_failure is not None
    assert "out of memory" in world.status.last_failure.message
    assert world.service is not None
    assert world.service.model_revision == 3


def with_every_release(goal: Goal, service: ServiceState, status: EngineStatus, round_: Round) -> object:
    """As operators do that render each object anew with their own image."""
    chosen = round_.desired.effective.serving
    wish = template(goal, service.attempt, service.initial_scale, chosen.runtime_image, round_)
    applied = status.applied
    if applied is not None and applied.template_hash == template_hash(wish):
        return None
    return act.ApplyInferenceService(wish, template_hash(wish))


NEXT = "registry.example/predictor@sha256:2"


@case("G9", breaks="engine_operator.domain.rollout:correction_of", naive=with_every_release)
def test_g9_an_upgrade_with_another_image_restarts_none_of_twenty_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worlds = [World() for _ in range(20)]
    for world in worlds:
        world.serves(3)
    for world in worlds:
        before = world.writes
        world.policy = replace(POLICY, converter_image=NEXT)
        upgraded = defaults(NEXT, NEXT)
        monkeypatch.setattr("tests.unit.operator.domain.world.DEFAULTS", upgraded)
        assert of_type(world.settle(), act.ApplyInferenceService) == []
        assert world.writes == before
        rolled_to(world, 4)
        latest = of_type(world.done, act.ApplyInferenceService)[-1]
        assert isinstance(latest, act.ApplyInferenceService)
        assert latest.template.serving.runtime_image == NEXT, "the next model takes the release along"
        monkeypatch.setattr("tests.unit.operator.domain.world.DEFAULTS", DEFAULTS)


@case("G9", breaks="engine_operator.domain.rollout:correction_of", naive=whatever_differs)
def test_g9_an_upgrade_with_other_times_makes_one_generation_and_no_more() -> None:
    for longer in (timedelta(0), timedelta(minutes=5)):
        world = World()
        world.serves(3)
        before = world.writes
        budget = replace(world.policy.budget, node_boot=world.policy.budget.node_boot + longer)
        world.policy = replace(world.policy, budget=budget, converter_image=NEXT)
        world.settle()
        world.ready()
        for _ in range(5):
            world.passes(minutes=1)
            world.settle()
        assert world.writes - before == (1 if longer else 0)


def at_once(_: Backoff, attempts: int, seed: str, now: datetime) -> datetime:
    """As work queues in memory do: each restart begins anew."""
    return now


def forgotten(target: TargetStatus, round_: Round) -> bool:
    """The same, seen from the other side: nothing is remembered."""
    return True


@case("G10", breaks="engine_operator.domain.attempts:due", naive=forgotten)
@case("G10", breaks="engine_operator.domain.backoff:Backoff.next_retry", naive=at_once)
def test_g10_fifty_failed_engines_keep_their_times_over_a_restart_and_do_not_come_together() -> None:
    worlds = [World(spec=engine(name=f"e{number:024x}")) for number in range(50)]
    for world in worlds:
        world.settle()
        for _ in range(3):
            world.job_is(JobPhase.FAILED, ProcessFailure("SourceUnreachable", "the link answered 503", 25))
            world.settle()
            assert world.status.target is not None
            assert world.status.target.next_retry is not None
            world.now = (
                max(world.now, world.status.target.next_retry) if world.job().attempt < 3 else world.now
            )
            world.settle()
    retries = [world.status.target.next_retry for world in worlds if world.status.target]
    # A restart keeps nothing but what the API server holds: the objects and their status.
    reborn = [
        World(spec=w.spec, now=w.now, status=w.status, jobs=dict(w.jobs), manifests=dict(w.manifests))
        for w in worlds
    ]
    assert [world.settle() for world in reborn] == [[]] * 50
    assert [world.status.target.next_retry for world in reborn if world.status.target] == retries
    assert len({retry - world.now for retry, world in zip(retries, reborn, strict=True) if retry}) >= 45
    first = reborn[0]
    assert retries[0] is not None
    first.now = retries[0]
    assert len(of_type(first.settle(), act.StartConversion)) == 1


@case(
    "G10",
    breaks="engine_operator.domain.attempts:target_of",
    naive=lambda goal, round_: round_.observed.status.target,
)
def test_g10_the_annotation_tries_one_engine_again_at_once() -> None:
    one, other = World(), World(spec=engine(name="other"))
    for world in (one, other):
        world.publish(3)
        world.settle()
        world.crashed()
        world.settle()
        assert world.phase() == Phase.BACKING_OFF.value
    one.spec = replace(one.spec, retry_token="2026-11-30")
    assert len(of_type(one.settle(), act.ApplyInferenceService)) == 1
    assert other.settle() == []


@case("G10", breaks="engine_operator.domain.rollout:_forced", naive=lambda goal, round_: False)
def test_g10_the_annotation_helps_an_engine_that_has_no_try_left() -> None:
    world = World()
    world.publish(3)
    world.settle()
    for _ in range(20):
        world.crashed()
        world.settle()
        assert world.status.target is not None
        if world.status.target.next_retry is None:
            break
        world.now = world.status.target.next_retry
        world.settle()
    assert world.said("Progressing") == ("False", reasons.RETRIES_EXHAUSTED)
    world.spec = replace(world.spec, retry_token="again")
    assert len(of_type(world.settle(), act.ApplyInferenceService)) == 1
    world.ready()
    world.settle()
    assert (world.serving(), world.said("Degraded")[0]) == (3, "False")
