"""The plan, told as what happens to one engine."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.desired import Goal, Round, template_hash
from engine_operator.domain.engine import ServingSpec
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    JobPhase,
    Known,
    ManifestFact,
    Phase,
    ProcessFailure,
    ServiceState,
)
from engine_operator.domain.rollout import occupies_place, template
from engine_operator.domain.serval_facts import Existence, Verdict
from tests.support.cases import case
from tests.unit.operator.domain.world import World, engine, of_type

FAILED = ProcessFailure("SourceUnreachable", "the link answered 503", 25)


def test_finished_build_is_converted_rolled_out_and_serves() -> None:
    world = World()
    world.settle()
    assert [j.attempt for j in world.jobs.values()] == [1]
    assert world.phase() == "Converting"
    world.converted()
    world.settle()
    assert world.phase() == "RollingOut"
    assert world.service is not None
    assert (world.service.model_revision, world.service.attempt) == (3, 1)
    world.ready()
    world.settle()
    assert (world.phase(), world.serving()) == ("Serving", 3)
    assert world.status.serving is not None
    assert world.status.serving.knative_revision == world.latest().name


def test_nothing_to_do_means_no_action() -> None:
    world = World()
    world.serves()
    for minutes in range(1, 11):
        world.passes(minutes=minutes)
        assert world.round() == []


def test_event_is_told_once_per_transition() -> None:
    world = World()
    world.serves()
    told = [a.reason for a in world.done if isinstance(a, act.EmitEvent)]
    assert told == [reasons.CONVERSION_STARTED, reasons.ROLLOUT_STARTED, reasons.PROMOTED, reasons.SERVING]


def test_manifest_in_the_store_is_the_truth_whatever_jobs_exist() -> None:
    world = World()
    world.publish(3)
    world.settle()
    assert world.jobs == {}
    assert world.phase() == "RollingOut"


def test_source_url_is_handed_over_and_renewed_only_while_the_job_has_not_started() -> None:
    world = World()
    first = of_type(world.settle(), act.RefreshSourceUrl)
    assert [a.revision for a in first if isinstance(a, act.RefreshSourceUrl)] == [3]
    world.job_is(JobPhase.NEEDS_SOURCE)
    world.passes(minutes=49)
    assert of_type(world.settle(), act.RefreshSourceUrl) == []
    world.passes(minutes=2)
    assert len(of_type(world.settle(), act.RefreshSourceUrl)) == 1
    world.job_is(JobPhase.RUNNING)
    world.passes(minutes=55)
    assert of_type(world.settle(), act.RefreshSourceUrl) == []


def test_failed_conversion_backs_off_and_is_tried_again_by_another_job() -> None:
    world = World()
    world.settle()
    first = world.job().name
    world.job_is(JobPhase.FAILED, FAILED)
    world.settle()
    assert world.phase() == "BackingOff"
    assert world.status.last_failure is not None
    assert (world.status.last_failure.reason, world.status.last_failure.phase) == (
        FAILED.reason,
        Phase.CONVERTING,
    )
    assert world.said("Degraded") == ("True", reasons.CONVERSION_FAILED)
    world.passes(seconds=10)
    assert world.round() == []
    world.passes(seconds=30)
    world.settle()
    assert (world.job().attempt, world.phase()) == (2, "Converting")
    assert first not in world.jobs


def test_attempts_are_bounded_and_a_person_can_start_anew() -> None:
    world = World()
    world.settle()
    for _ in range(world.policy.backoff.max_attempts):
        world.job_is(JobPhase.FAILED, FAILED)
        world.settle()
        world.passes(hours=1)
        world.settle()
    assert world.job().attempt == world.policy.backoff.max_attempts
    assert world.said("Progressing") == ("False", reasons.RETRIES_EXHAUSTED)
    world.passes(days=30)
    assert world.round() == []
    world.spec = replace(world.spec, retry_token="please")
    world.jobs = {}
    world.settle()
    assert (world.phase(), world.job().attempt) == ("Converting", 1)


def test_failure_that_the_same_source_will_show_again_is_tried_once() -> None:
    world = World()
    world.settle()
    world.job_is(JobPhase.FAILED, ProcessFailure("VocabularyMismatch", "4205 tokens, 4100 rows", 17))
    world.settle()
    world.passes(days=1)
    assert world.round() == []
    assert world.said("Degraded") == ("True", reasons.RETRIES_EXHAUSTED)
    world.serves(4)
    assert world.said("Degraded") == ("False", reasons.AS_EXPECTED)


def test_job_that_succeeds_without_a_manifest_has_failed() -> None:
    world = World()
    world.settle()
    world.job_is(JobPhase.SUCCEEDED)
    world.settle()
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.MANIFEST_MISSING


def test_newer_build_replaces_a_conversion_that_runs() -> None:
    world = World(wanted=4)
    world.settle()
    old = world.job().name
    world.wanted = 5
    world.settle()
    assert old not in world.jobs
    assert world.job().artifact_key.revision == 5


def test_older_conversion_that_ends_later_never_replaces_newer_model() -> None:
    world = World(wanted=4)
    world.settle()
    world.serves(5)
    world.publish(4)
    world.settle()
    assert world.serving() == 5
    assert world.status.target is not None
    assert world.status.target.revision == 5


def test_failed_rollout_leaves_the_old_revision_serving_and_says_why() -> None:
    world = World()
    world.serves(3)
    before = world.status.serving
    world.wanted = 4
    world.settle()
    world.converted()
    world.settle()
    world.crashed()
    world.settle()
    assert world.status.serving == before
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == "ProbeMismatch"
    assert world.said("Available") == ("True", reasons.SERVING)
    assert world.said("UpToDate") == ("False", reasons.NEWER_MODEL)
    assert world.said("Degraded") == ("True", reasons.ROLLOUT_FAILED)


def test_retry_of_a_rollout_changes_the_attempt_alone() -> None:
    world = World()
    world.publish(3)
    world.settle()
    first = next(a for a in world.done if isinstance(a, act.ApplyInferenceService)).template
    world.crashed()
    world.settle()
    world.passes(minutes=1)
    again = next(a for a in world.settle() if isinstance(a, act.ApplyInferenceService)).template
    assert again == replace(first, attempt=2)
    world.ready()
    world.settle()
    assert world.serving() == 3


def test_failure_of_an_older_attempt_is_not_counted_again() -> None:
    world = World()
    world.publish(3)
    world.settle()
    world.crashed()
    world.settle()
    world.passes(minutes=1)
    world.settle()
    assert world.status.target is not None
    assert (world.status.target.phase, world.status.target.attempts) == (Phase.ROLLING_OUT, 2)
    world.passes(minutes=1)
    assert world.round() == []


def test_revision_that_recovers_while_its_retry_waits_is_promoted() -> None:
    world = World()
    world.publish(3)
    world.settle()
    world.crashed()
    world.settle()
    world.ready()
    world.settle()
    assert (world.phase(), world.serving()) == ("Serving", 3)


def test_pod_without_a_node_is_no_failure_within_the_wake_budget() -> None:
    world = World()
    world.publish(3)
    world.settle()
    name = world.latest().name
    world.pod_of(name, unschedulable="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    world._mark(name, ConditionStatus.FALSE, "Unschedulable", "0/3 nodes are available")
    world.passes(minutes=14)
    world.settle()
    assert world.phase() == "RollingOut"
    assert "WaitingForNode" in world.condition("Progressing").message
    world.passes(minutes=2)
    world.settle()
    assert world.phase() == "BackingOff"
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.NO_CAPACITY


def test_rollouts_and_conversions_wait_for_a_free_place() -> None:
    world = World(busy_conversions=3)
    world.settle()
    assert (world.jobs, world.phase()) == ({}, "Pending")
    world.busy_conversions = 2
    world.settle()
    world.converted()
    world.busy_rollouts = 3
    world.settle()
    assert (world.service, world.phase()) == (None, "Converted")
    world.busy_rollouts = 2
    world.settle()
    assert world.phase() == "RollingOut"
    assert occupies_place(world.status, world.service)


def test_suspended_engine_loses_its_service_and_comes_back_without_conversion() -> None:
    world = World()
    world.serves()
    world.spec = replace(world.spec, suspended=True)
    world.settle()
    assert world.service is None
    assert world.said("Available") == ("False", reasons.SUSPENDED)
    world.spec = replace(world.spec, suspended=False)
    world.jobs = {}
    world.settle()
    assert world.jobs == {}
    world.ready()
    world.settle()
    assert world.said("Available") == ("True", reasons.SERVING)


def test_paused_engine_gets_nothing_but_status() -> None:
    world = World()
    world.serves()
    world.spec, world.wanted = replace(world.spec, paused=True), 4
    assert {type(a) for a in world.settle()} <= {act.WriteStatus, act.EmitEvent}
    assert world.said("Progressing") == ("False", reasons.PAUSED)
    assert world.said("UpToDate") == ("False", reasons.NEWER_MODEL)


def test_pinned_revision_goes_before_servals() -> None:
    world = World()
    world.serves(3)
    world.wanted, world.spec = 5, replace(world.spec, pinned=3)
    world.settle()
    assert world.jobs == {} or all(j.artifact_key.revision == 3 for j in world.jobs.values())
    assert world.said("UpToDate") == ("True", reasons.PINNED)


@pytest.mark.parametrize("existence", [Existence.UNKNOWN, Existence.NOT_OURS])
def test_silence_or_refusal_of_serval_changes_nothing_that_serves(existence: Existence) -> None:
    world = World()
    world.serves()
    world.existence, world.wanted = existence, None
    world.settle()
    assert world.service is not None
    assert world.said("Available") == ("True", reasons.SERVING)
    assert world.said("UpToDate")[0] != "True"


def test_work_that_has_begun_goes_on_while_serval_is_silent() -> None:
    world = World()
    world.settle()
    world.wanted, world.existence = None, Existence.UNKNOWN
    world.converted()
    world.settle()
    world.ready()
    world.settle()
    assert world.serving() == 3


def test_engine_gone_in_serval_loses_workloads_and_stays_gone() -> None:
    world = World(spec=engine(operator_made=False))
    world.serves()
    world.existence, world.wanted = Existence.GONE, None
    world.settle()
    assert world.service is None
    assert world.said("Degraded") == ("True", reasons.ENGINE_GONE)
    assert world.said("Available")[0] == "False"
    world.passes(hours=1)
    assert world.round() == []


def test_engine_that_is_no_longer_selected_keeps_what_it_serves() -> None:
    world = World()
    world.serves(3)
    world.verdict, world.wanted = Verdict(reasons.NOT_SELECTED, "type"), 4
    world.settle()
    assert (world.serving(), world.service is not None) == (3, True)
    assert not any(j.artifact_key.revision == 4 for j in world.jobs.values())
    assert world.said("Degraded") == ("True", reasons.NOT_SELECTED)


def test_storage_that_refuses_starts_no_pod_and_names_the_reason() -> None:
    world = World(storage=Verdict("StoreMisconfigured", "Secret 'store' lacks AWS_SECRET_ACCESS_KEY"))
    world.settle()
    assert (world.jobs, world.phase()) == ({}, "Pending")
    assert world.said("StorageReady") == ("False", "StoreMisconfigured")


def test_silent_store_neither_converts_again_nor_loses_the_service() -> None:
    world = World()
    world.serves()
    world.jobs, world.store_silent = {}, True
    world.settle()
    assert world.jobs == {}
    assert world.said("Available") == ("True", reasons.SERVING)


def test_service_removed_by_hand_is_made_again_from_what_served() -> None:
    world = World()
    world.serves(3)
    world.wanted = 4
    world.settle()
    world.service_is_removed()
    world.settle()
    assert world.service is not None
    assert world.service.model_revision == 3


def test_dying_service_is_never_counted_as_existing() -> None:
    world = World()
    world.serves()
    assert world.service is not None
    world.service = replace(world.service, deleting=True)
    world.settle()
    assert world.said("Available")[0] == "False"
    assert of_type(world.round(), act.ApplyInferenceService) == []
    world.service_is_removed()
    world.settle()
    assert world.service is not None
    assert not world.service.deleting


def test_lost_status_is_rebuilt_without_conversion_or_new_revision() -> None:
    world = World()
    world.serves()
    world.asleep()
    world.jobs, revisions = {}, list(world.revisions)
    world.status = EngineStatus()
    world.settle()
    assert (world.jobs, world.revisions) == ({}, revisions)
    assert (world.serving(), world.phase()) == (3, "Serving")
    assert world.said("Available") == ("True", reasons.ASLEEP)


def _never_correct(goal: Goal, service: ServiceState, status: EngineStatus, round_: Round) -> None:
    """The naive version: what was applied once surely stays."""


@case("D11", breaks="engine_operator.domain.rollout:correction_of", naive=_never_correct)
def test_d11_overwritten_field_is_taken_back_once_and_then_told() -> None:
    world = World()
    world.serves()
    before = world.writes
    assert world.service is not None
    world.service = replace(world.service, owned_hash="somebody took a field")
    world.settle()
    assert world.writes == before + 1
    assert world.status.applied is not None
    assert world.status.applied.reclaimed
    assert world.said("Degraded") == ("False", reasons.AS_EXPECTED)
    world.service = replace(world.service, owned_hash="and took it again")
    world.settle()
    assert world.writes == before + 1
    assert world.said("Degraded") == ("True", reasons.FOREIGN_FIELD_OWNER)


def _always_apply(
    goal: Goal, service: ServiceState, status: EngineStatus, round_: Round
) -> act.ApplyInferenceService:
    """The naive version: what is applied again is surely right."""
    wish = template(goal, service.attempt, service.initial_scale, service.runtime_image, round_)
    return act.ApplyInferenceService(wish, template_hash(wish))


@case("D11", breaks="engine_operator.domain.rollout:correction_of", naive=_always_apply)
def test_d11_defaults_and_foreign_fields_cause_no_write() -> None:
    """Facts of the live object that others decide (status, URL, latest revisions) change; ours do not."""
    world = World()
    world.serves()
    before = world.writes
    for number in range(20):
        assert world.service is not None
        world.service = replace(
            world.service,
            message=f"defaulted {number}",
            ready=ConditionStatus.FALSE,
            latest_ready=f"r{number}",
        )
        world.passes(seconds=30)
        world.settle()
    assert world.writes == before


def test_changed_wish_is_applied_once_as_a_rollout_of_the_same_model() -> None:
    world = World()
    world.serves()
    world.spec = replace(world.spec, serving=ServingSpec(max_replicas=4), generation=2)
    applied = of_type(world.settle(), act.ApplyInferenceService)
    assert len(applied) == 1
    world.ready()
    world.settle()
    assert (world.serving(), world.phase()) == (3, "Serving")
    assert world.status.serving is not None
    assert world.status.serving.knative_revision == world.latest().name


def test_what_serves_is_looked_after_while_the_next_revision_fails() -> None:
    world = World()
    world.serves(3)
    world.wanted = 4
    world.settle()
    world.job_is(JobPhase.FAILED, ProcessFailure("VocabularyMismatch", "4205 tokens, 4100 rows", 17))
    world.settle()
    assert world.service is not None
    world.service = replace(world.service, owned_hash="somebody took a field")
    taken_back = of_type(world.settle(), act.ApplyInferenceService)
    assert [a.template.model_revision for a in taken_back if isinstance(a, act.ApplyInferenceService)] == [3]
    world.spec = replace(world.spec, serving=ServingSpec(max_replicas=4))
    assert len(of_type(world.settle(), act.ApplyInferenceService)) == 1
    world.ready()
    world.settle()
    assert (world.serving(), world.phase()) == (3, "BackingOff")


def test_one_pull_secret_feeds_jobs_and_predictors_unless_the_engine_names_its_own() -> None:
    world = World()
    world.policy = replace(world.policy, image_pull_secrets=("mirror",))
    world.serves()
    jobs = [a.plan.image_pull_secrets for a in world.done if isinstance(a, act.StartConversion)]
    pods = [
        a.template.serving.image_pull_secrets for a in world.done if isinstance(a, act.ApplyInferenceService)
    ]
    assert (jobs, pods) == ([("mirror",)], [("mirror",)])


def test_jobs_and_predictors_run_under_the_service_account_for_workloads_and_are_rolled_once() -> None:
    world = World()
    world.policy = replace(world.policy, workload_service_account="workload")
    world.serves()
    jobs = [a.plan.service_account for a in world.done if isinstance(a, act.StartConversion)]
    pods = [a.template.service_account for a in world.done if isinstance(a, act.ApplyInferenceService)]
    assert (jobs, pods) == (["workload"], ["workload"])
    world.settle()
    assert len(of_type(list(world.done), act.ApplyInferenceService)) == 1


def test_new_release_restarts_no_engine() -> None:
    from engine_operator.profiles import defaults
    from tests.unit.operator.domain import world as module

    world = World()
    world.serves()
    newer = defaults("registry.example/predictor@sha256:2", "registry.example/predictor-gpu@sha256:2")
    old, module.DEFAULTS = module.DEFAULTS, newer
    try:
        assert world.round() == []
        world.serves(4)
    finally:
        module.DEFAULTS = old
    assert world.status.serving is not None
    assert world.status.serving.runtime_image.endswith("sha256:2")


def test_no_new_bookkeeping_reaches_the_service() -> None:
    """Two engines whose statuses differ in everything but the model get the same InferenceService."""
    first, second = World(), World()
    first.serves()
    second.settle()
    second.job_is(JobPhase.FAILED, FAILED)
    second.settle()
    second.passes(hours=2)
    second.settle()
    second.converted()
    second.settle()

    def applied(world: World) -> act.ServiceTemplate:
        return next(a for a in world.done if isinstance(a, act.ApplyInferenceService)).template

    assert applied(first) == applied(second)


EVENTS = (
    "converted",
    "ready",
    "crashed",
    "job failed",
    "job lost",
    "asleep",
    "newer build",
    "time",
    "status lost",
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=14))
def test_whatever_happens_the_plan_settles_and_never_serves_an_unproven_model(events: list[str]) -> None:
    world = World()
    world.settle()
    good: set[int] = set()
    for event in events:
        if event == "converted" and world.jobs:
            world.converted()
        elif event == "ready" and world.revisions:
            world.ready()
            good.add(world.latest().model_revision)
        elif event == "crashed" and world.revisions and not any(p.ready for p in world.pods):
            world.crashed()
        elif event == "job failed" and world.jobs and world.job().phase is not JobPhase.SUCCEEDED:
            world.job_is(JobPhase.FAILED, FAILED)
        elif event == "job lost":
            world.jobs = {}
        elif event == "asleep":
            world.asleep()
        elif event == "newer build":
            world.wanted = (world.wanted or 0) + 1
        elif event == "time":
            world.passes(minutes=7)
        elif event == "status lost":
            world.status = EngineStatus()
        world.settle()
        assert world.serving() is None or world.serving() in good
        assert len(world.status.conditions) == 6
        assert len({j.name for j in world.jobs.values()}) == len(world.jobs)


def test_vanished_manifest_is_converted_again() -> None:
    world = World()
    world.serves()
    world.jobs = {}
    world.manifests = {}
    world.settle()
    assert world.said("Available") == ("False", reasons.MODEL_GONE)
    assert world.jobs
    world.converted()
    world.settle()
    assert world.said("Available") == ("True", reasons.SERVING)


def test_manifest_of_other_bytes_is_another_rollout() -> None:
    world = World()
    world.serves()
    world.manifests[world.key(3)] = ManifestFact(Known.PRESENT, "f" * 64, "a2-111111")
    world.settle()
    assert world.service is not None
    assert world.service.manifest_sha256 == "f" * 64
