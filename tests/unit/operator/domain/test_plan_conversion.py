"""The plan for conversions: attempts, back-off, one Job at a time, and the manifest as the truth."""

from dataclasses import replace

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.availability import told
from engine_operator.domain.observed import (
    ConditionStatus,
    JobPhase,
    Known,
    ManifestFact,
    Phase,
    ProcessFailure,
)
from tests.support.cases import case
from tests.unit.operator.domain.world import FAILED, World, of_type


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


@case(
    "p72",
    breaks="engine_operator.domain.availability:available",
    naive=lambda round_, status, previous: told(ConditionStatus.TRUE, reasons.SERVING, "pods are ready"),
)
def test_p72_a_removed_artifact_is_told_converted_once_more_and_leaves_running_pods_alone() -> None:
    world = World()
    world.serves()
    pods, writes = list(world.pods), world.writes
    world.jobs, world.manifests = {}, {}
    for _ in range(3):
        world.settle()
    assert world.said("Available") == ("False", reasons.MODEL_GONE)
    assert (world.pods, world.writes) == (pods, writes)
    assert of_type(world.done, act.DeleteInferenceService) == []
    assert len(world.jobs) == 1, "no loop"


def test_manifest_of_other_bytes_is_another_rollout() -> None:
    world = World()
    world.serves()
    world.manifests[world.key(3)] = ManifestFact(Known.PRESENT, "f" * 64, "a2-111111")
    world.settle()
    assert world.service is not None
    assert world.service.manifest_sha256 == "f" * 64
