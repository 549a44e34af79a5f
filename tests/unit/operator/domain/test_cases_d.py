"""Handed situations about KServe and Knative, as far as they are decisions: D3, D4, D7 to D10, D16."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.backoff import Backoff
from engine_operator.domain.churn import Churn
from engine_operator.domain.desired import Goal, Round, Stage
from engine_operator.domain.engine import Profile, ServingSpec, Strategy
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    Phase,
    ProcessFailure,
    RevisionState,
    ServiceState,
    ServingStatus,
    StoredArtifact,
    StoredAttempt,
    TargetStatus,
)
from engine_operator.domain.rollout import outdated
from tests.support.cases import case
from tests.unit.operator.domain.test_swap import NO_GPU, gpu, rolled_to
from tests.unit.operator.domain.world import World, of_type

UNLOADABLE = ProcessFailure("ModelUnloadable", "CTranslate2 cannot open the model", 22)
NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def by_the_services_word(round_: Round) -> ServingStatus | None:
    """As operators do that take the InferenceService's Ready for the truth, whatever generation it is of."""
    old, service = round_.observed.status.serving, round_.observed.service
    if old is None or service is None or service.ready is not ConditionStatus.TRUE:
        return old
    return replace(old, revision=service.model_revision, manifest_sha256=service.manifest_sha256)


@case("D3", breaks="engine_operator.domain.serving:serving_of", naive=by_the_services_word)
def test_d3_a_ready_of_the_generation_before_is_not_the_new_models() -> None:
    world = World()
    world.serves(3)
    assert world.service is not None
    world.service = replace(world.service, ready=ConditionStatus.TRUE)
    rolled_to(world, 4)
    assert world.service.model_revision == 4, "the object names the new model"
    world.service = replace(world.service, ready=ConditionStatus.TRUE)
    world.settle()
    assert (world.serving(), world.phase()) == (3, "RollingOut")
    assert world.said("UpToDate") == ("False", reasons.NEWER_MODEL)
    world.ready()
    world.settle()
    assert world.said("UpToDate") == ("True", reasons.CURRENT)


@case("D3", breaks="engine_operator.domain.availability:pods_of", naive=lambda _, __: ())
def test_d3_a_service_that_calls_itself_ready_while_its_pods_crash_is_not_available() -> None:
    world = World()
    world.serves(3)
    assert world.service is not None
    world.service = replace(world.service, ready=ConditionStatus.TRUE)
    world.pod_of(world.latest().name, ready=False, failure=UNLOADABLE)
    world.settle()
    assert world.said("Available") == ("False", reasons.WAKE_FAILED)
    assert UNLOADABLE.message in world.condition("Available").message


def without_an_end(_: Backoff, attempts: int, seed: str, now: object) -> object:
    """As loops do that try for ever, at once."""
    return now


@case("D4", breaks="engine_operator.domain.attempts:with_exit_code", naive=lambda failure: failure.message)
def test_d4_a_new_revision_that_does_not_load_is_told_with_exit_code_and_last_words() -> None:
    world = World()
    world.serves(3)
    rolled_to(world, 4)
    world.crashed(UNLOADABLE)
    world.settle()
    assert (world.serving(), world.said("Available")[0]) == (3, "True")
    assert world.said("Degraded") == ("True", reasons.ROLLOUT_FAILED)
    told = world.condition("Degraded").message
    assert "revision 4" in told
    assert "CTranslate2 cannot open the model" in told
    assert "exit code 22" in told


@case("D4", breaks="engine_operator.domain.backoff:Backoff.next_retry", naive=without_an_end)
def test_d4_a_model_that_never_loads_is_tried_a_few_times_and_the_next_build_takes_its_place() -> None:
    world = World()
    world.serves(3)
    rolled_to(world, 4)
    before, waits = world.writes, []
    for _ in range(20):
        world.crashed(UNLOADABLE)
        world.settle()
        retry = world.status.target.next_retry if world.status.target else None
        if retry is None:
            break
        waits.append(retry - world.now)
        world.now = retry
        world.settle()
    assert world.said("Degraded") == ("True", reasons.RETRIES_EXHAUSTED)
    assert waits == sorted(waits), "each wait is longer than the one before"
    assert world.writes - before == world.policy.rollout_backoff.max_attempts - 1
    world.passes(days=3)
    assert world.settle() == []
    rolled_to(world, 5)
    world.ready()
    world.settle()
    assert (world.serving(), world.said("Degraded")[0]) == (5, "False")


def all_but_the_newest(status: EngineStatus, round_: Round) -> tuple[act.Action, ...]:
    """As clean-ups do that go by age."""
    stored, target = round_.observed.stored or (), status.target
    folders = tuple(f"{a.key}/" for a in stored if target and a.key != target.artifact_key)
    return (act.CollectArtifacts(round_.desired.engine.engine_id, folders, "old"),) if folders else ()


@case("D4", breaks="engine_operator.domain.collect:collect", naive=all_but_the_newest)
def test_d4_artifacts_of_what_serves_outlive_a_failed_rollout() -> None:
    world = World()
    world.serves(3)
    rolled_to(world, 4)
    old = world.now - timedelta(days=30)
    world.stored = tuple(
        StoredArtifact(world.key(number), True, (StoredAttempt("a1-000000", old),), "a1-000000")
        for number in (3, 4)
    )
    world.crashed(UNLOADABLE)
    world.settle()
    assert of_type(world.done, act.CollectArtifacts) == []
    assert world.key(3) in world.manifests


@case("D7", breaks="engine_operator.domain.rollout:failure_of", naive=lambda revision, service, round_: None)
def test_d7_blue_green_without_a_second_gpu_waits_with_a_reason_and_serves_on() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.serves(3)
    rolled_to(world, 4)
    name = world.latest().name
    world.pod_of(name, unschedulable=NO_GPU)
    world._mark(name, ConditionStatus.FALSE, "Unschedulable", NO_GPU)
    world.settle()
    assert reasons.WAITING_FOR_NODE in world.condition("Progressing").message
    assert NO_GPU in world.condition("Progressing").message
    world.passes(minutes=16)
    world.settle()
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.NO_CAPACITY
    assert reasons.NO_CAPACITY in world.condition("Degraded").message
    assert (world.serving(), world.said("Available")) == (3, ("True", reasons.SERVING))


@case("D7", breaks="engine_operator.domain.rollout:_starved", naive=lambda revision, round_: False)
def test_d7_auto_frees_the_only_gpu_in_time_and_the_old_model_returns_if_the_new_one_fails() -> None:
    world = gpu(Strategy.AUTO)
    world.serves(3)
    rolled_to(world, 4)
    world.pod_of(world.latest().name, unschedulable=NO_GPU)
    world.passes(seconds=61)
    world.settle()
    assert world.service is not None
    assert (world.service.model_revision, world.service.initial_scale) == (4, 0)
    told = [a for a in world.done if isinstance(a, act.EmitEvent) and a.reason == reasons.SWAPPING]
    assert len(told) == 1
    assert "revision 3" in told[0].message
    world.crashed(UNLOADABLE)
    world.settle()
    assert (world.service.model_revision, world.serving()) == (3, 3)
    assert reasons.ROLLED_BACK in [a.reason for a in world.done if isinstance(a, act.EmitEvent)]
    assert world.said("Available")[0] == "True"


SLOW = timedelta(minutes=8), timedelta(minutes=3), timedelta(minutes=2)
"""A node, an image, a model."""


def at_once(revision: RevisionState, service: ServiceState, round_: Round) -> ProcessFailure | None:
    """As those do that read `Unschedulable` for a failure."""
    if revision.ready is not ConditionStatus.FALSE:
        return None
    return ProcessFailure(reasons.REVISION_FAILED, revision.message)


def waiting_for_a_node() -> World:
    """An engine whose first pod has found no node for as long as one takes to boot."""
    world = gpu(Strategy.AUTO)
    world.publish(3)
    world.settle()
    (applied,) = of_type(world.done, act.ApplyInferenceService)
    assert isinstance(applied, act.ApplyInferenceService)
    assert applied.template.serving.min_replicas == 0
    assert applied.template.progress_deadline_seconds >= sum(SLOW, timedelta()).total_seconds()
    name, born = world.latest().name, world.now
    world.pod_of(name, unschedulable=NODE)
    world._mark(name, ConditionStatus.FALSE, "Unschedulable", NODE)
    for step in range(16):
        world.now = born + SLOW[0] * step / 16
        world.settle()
        assert world.phase() == "RollingOut"
        assert NODE in world.condition("Progressing").message
    assert f"since {born:%Y-%m-%dT%H:%M:%SZ}" in world.condition("Progressing").message
    return world


@case("p73", breaks="engine_operator.domain.rollout:failure_of", naive=at_once)
def test_p73_a_pod_without_a_node_is_waited_for_and_not_written_off() -> None:
    world = waiting_for_a_node()
    assert (world.phase(), world.writes, world.status.last_failure) == ("RollingOut", 1, None)


@case("D8", breaks="engine_operator.domain.rollout:failure_of", naive=at_once)
def test_d8_a_node_that_comes_late_is_waited_for_and_the_engine_serves_without_help() -> None:
    world = waiting_for_a_node()
    name = world.latest().name
    world.pod_of(name, unschedulable=None)
    world._mark(name, ConditionStatus.UNKNOWN, "Deploying")
    for wait in SLOW:
        world.now += wait
        world.settle()
    world.ready()
    world.settle()
    assert (world.serving(), world.writes) == (3, 1)
    told = [a.reason for a in world.done if isinstance(a, act.EmitEvent)]
    assert told.count(reasons.PROMOTED) == 1, "clients are given the address once"


LATE = "Initial scale was never achieved"


@case(
    "D9",
    breaks="engine_operator.domain.rollout:_retry",
    naive=lambda goal, target, service, status, _: Stage(status),
)
@case(
    "p73",
    breaks="engine_operator.domain.rollout:_retry",
    naive=lambda goal, target, service, status, _: Stage(status),
)
def test_d9_a_revision_that_knative_gave_up_is_started_again_by_one_value_alone() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.serves(3)
    rolled_to(world, 4)
    first = of_type(world.done, act.ApplyInferenceService)[-1]
    world.passes(seconds=600)
    world.pod_of(world.latest().name, unschedulable=NODE)
    world._mark(world.latest().name, ConditionStatus.FALSE, "ProgressDeadlineExceeded", LATE)
    world.settle()
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.NO_CAPACITY, "the pod never had a node to fail on"
    assert NODE in world.status.last_failure.message
    assert world.serving() == 3
    world.passes(seconds=100)
    world.settle()
    again = of_type(world.done, act.ApplyInferenceService)[-1]
    assert isinstance(first, act.ApplyInferenceService)
    assert isinstance(again, act.ApplyInferenceService)
    assert again.template == replace(first.template, attempt=2)
    assert of_type(world.done, act.DeleteInferenceService) == []
    world.ready()
    world.settle()
    assert world.serving() == 4


@case("D9", breaks="engine_operator.domain.backoff:Backoff.next_retry", naive=without_an_end)
def test_d9_no_revision_is_started_again_more_than_three_times_and_each_time_later() -> None:
    world = gpu(Strategy.BLUE_GREEN)
    world.serves(3)
    rolled_to(world, 4)
    begun, waits = world.writes, []
    for _ in range(6):
        world.pod_of(world.latest().name, unschedulable=NODE)
        world._mark(world.latest().name, ConditionStatus.FALSE, "ProgressDeadlineExceeded", LATE)
        world.settle()
        assert world.status.target is not None
        retry = world.status.target.next_retry
        if retry is not None:
            waits.append(retry - world.now)
            world.now = retry
            world.settle()
    assert world.writes - begun == len(waits) == 3
    assert all(later > 2 * earlier for earlier, later in itertools.pairwise(waits))
    assert world.said("Progressing") == ("False", reasons.RETRIES_EXHAUSTED)
    assert (world.serving(), world.said("Available")[0]) == (3, "True")


def whatever_differs(goal: Goal, service: ServiceState, status: EngineStatus, round_: Round) -> object:
    """As controllers do that write what they would write, whenever they look."""
    from engine_operator.domain.desired import template_hash
    from engine_operator.domain.rollout import template

    wish = template(goal, service.attempt, service.initial_scale, service.runtime_image, round_)
    return act.ApplyInferenceService(wish, template_hash(wish))


@case("D10", breaks="engine_operator.domain.rollout:correction_of", naive=whatever_differs)
def test_d10_a_kserve_upgrade_that_renders_forty_services_anew_costs_no_write() -> None:
    worlds = [World() for _ in range(40)]
    for world in worlds:
        world.serves(3)
        latest = world.latest()
        world.revisions.append(replace(latest, name=f"{latest.name[:-1]}2", created=world.now))
        world.done.clear()
        before = world.writes
        world.ready()
        world.round()
        assert world.round() == []
        assert world.writes == before
        assert world.serving() == 3


@case("D10", breaks="engine_operator.domain.churn:Churn.foreign", naive=lambda self, engine, observed: ())
def test_d10_revisions_that_others_made_are_counted_and_ours_are_not() -> None:
    world, churn = World(), Churn()
    found: list[str] = []

    def looks() -> None:
        while world.round():
            found.extend(churn.foreign(("live", "e"), world.observed()))
        found.extend(churn.foreign(("live", "e"), world.observed()))

    world.publish(3)
    looks()
    world.ready()
    looks()
    rolled_to(world, 4)
    looks()
    world.crashed(UNLOADABLE)
    looks()
    world.passes(minutes=1)
    looks()
    world.ready()
    looks()
    assert (world.serving(), len(world.revisions), found) == (4, 3, []), "a retry is ours, too"
    latest = world.latest()
    world.revisions.append(replace(latest, name=f"{latest.name[:-1]}9", created=world.now))
    looks()
    assert found == [world.latest().name]


@case("D10", breaks="engine_operator.domain.rollout:_free_place", naive=lambda round_: True)
def test_d10_our_own_release_rolls_only_as_many_engines_at_once_as_it_may() -> None:
    world = World()
    world.serves(3)
    world.policy = replace(world.policy, roll_release=True)
    world.spec = replace(world.spec, serving=ServingSpec(profile=Profile.CPU, min_replicas=1))
    world.busy_rollouts = world.policy.max_rolling
    assert of_type(world.settle(), act.ApplyInferenceService) == []
    assert waits_to_be_corrected(world), "it is looked at again when another is done"
    world.busy_rollouts -= 1
    assert len(of_type(world.settle(), act.ApplyInferenceService)) == 1
    assert not waits_to_be_corrected(world)


def waits_to_be_corrected(world: World) -> bool:
    return outdated(world.status, Round(world.desired(), world.observed(), world.now, world.policy))


def test_a_paused_engine_waits_for_no_correction() -> None:
    world = World()
    world.serves(3)
    assert not waits_to_be_corrected(world)
    world.spec = replace(world.spec, serving=ServingSpec(profile=Profile.CPU, min_replicas=1))
    assert waits_to_be_corrected(world)
    world.spec = replace(world.spec, paused=True)
    assert not waits_to_be_corrected(world)


def dying_or_not(round_: Round) -> ServiceState | None:
    """As those do that ask only whether something of the name exists."""
    return round_.observed.service


def no_matter_the_dying(goal: Goal, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """As those do that apply at once: the dying object takes the apply, and goes with it."""
    from engine_operator.domain.desired import template_hash
    from engine_operator.domain.rollout import template

    wish = template(goal, 1, 1, round_.desired.effective.serving.runtime_image, round_)
    target = replace(target, phase=Phase.ROLLING_OUT, attempts=1)
    return Stage(replace(status, target=target), (act.ApplyInferenceService(wish, template_hash(wish)),))


@case("D16", breaks="engine_operator.domain.rollout:roll_out", naive=no_matter_the_dying)
@case("D16", breaks="engine_operator.domain.serving:live_service", naive=dying_or_not)
def test_d16_a_resume_waits_until_the_service_of_the_same_name_is_gone() -> None:
    world = World()
    world.serves(3)
    dying = replace(world.service, deleting=True) if world.service else None
    pods, revisions = list(world.pods), list(world.revisions)
    world.spec = replace(world.spec, suspended=True)
    world.settle()
    assert world.service is None
    # Its finalizer holds it: everything is still there.
    world.service, world.pods, world.revisions = dying, pods, revisions
    world.spec = replace(world.spec, suspended=False)
    world.passes(seconds=2)
    before = world.writes
    world.settle()
    assert world.writes == before
    assert world.said("Available")[0] == "False", "the dying one counts for nothing"
    world.service_is_removed()
    world.settle()
    assert world.writes == before + 1
    world.ready()
    world.settle()
    assert (world.serving(), world.said("Available")[0]) == (3, "True")


HOLDER = "inferenceservice.finalizers"


@case("D15", breaks="engine_operator.domain.conditions:_dying", naive=lambda view: None)
@pytest.mark.parametrize("why", ["suspended", "gone"])
def test_d15_a_service_that_does_not_go_is_told_with_its_finalizer_and_the_address_is_taken_back(
    why: str,
) -> None:
    from engine_operator.domain.serval_facts import Existence

    world = World()
    world.serves(3)
    dying = replace(world.service, deleting=True, holds_deletion=(HOLDER,)) if world.service else None
    if why == "suspended":
        world.spec = replace(world.spec, suspended=True)
    else:
        world.existence = Existence.GONE
    world.settle()
    world.service = dying
    world.settle()
    assert world.said("Available")[0] == "False"
    assert world.said("Progressing") == ("True", reasons.DELETING)
    told = world.condition("Progressing").message
    assert f"InferenceService {world.spec.name}" in told
    assert HOLDER in told
    assert world.settle() == [], "it is waited for, not deleted again and again"
    world.service_is_removed()
    world.settle()
    assert world.said("Progressing")[0] == "False"
