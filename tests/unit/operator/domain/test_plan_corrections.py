"""The plan for what already serves: foreign writes, changed wishes, new releases; each written once."""

from dataclasses import replace

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.desired import Goal, Round, template_hash
from engine_operator.domain.engine import ServingSpec
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    JobPhase,
    ProcessFailure,
    ServiceState,
)
from engine_operator.domain.rollout import template
from tests.support.cases import case
from tests.unit.operator.domain.world import FAILED, World, of_type


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
