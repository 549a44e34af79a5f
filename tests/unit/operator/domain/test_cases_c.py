"""Handed situations about conversions and the store, as far as they are decisions: C1 to C4, C6, C8, C9, C12."""

import base64
import itertools
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine_operator.cluster.facts import job_state
from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.attempts import target_of
from engine_operator.domain.budget import conversion_resources
from engine_operator.domain.conversion import convert
from engine_operator.domain.desired import Desired, Goal, Round, Stage
from engine_operator.domain.engine import ModelStoreSpec, ObjectStore, Resources, SourceRef, StoreAccess
from engine_operator.domain.keys import ArtifactKey
from engine_operator.domain.observed import (
    ABSENT_MANIFEST,
    EngineStatus,
    JobPhase,
    JobState,
    Phase,
    ProcessFailure,
    StoredArtifact,
    StoredAttempt,
    TargetStatus,
)
from engine_operator.errors import StoreMisconfigured
from engine_operator.observe import archive
from engine_operator.store.preflight import refuse_misplaced_endpoint, store_keys
from tests.support.cases import case
from tests.unit.operator.cluster.test_facts import job, job_pod
from tests.unit.operator.domain.test_discovery import SOURCE
from tests.unit.operator.domain.world import ENGINE_ID, FAILED, POLICY, World, of_type

ANOTHER_IMAGE = replace(POLICY, converter_image="registry.example/predictor@sha256:2")


def by_attempt_alone(engine: str, key: ArtifactKey, attempt: int, image: str) -> str:
    """A name that two images share."""
    return f"{engine}-r{key.revision}-{attempt}"


@case("C1", breaks="engine_operator.domain.names:job_name", naive=by_attempt_alone)
def test_c1_another_converter_image_is_another_job_and_never_a_change_of_one() -> None:
    world = World()
    world.settle()
    first = world.job().name
    world.job_is(JobPhase.RUNNING)
    world.policy = ANOTHER_IMAGE
    world.settle()
    assert list(world.jobs) == [first], "the upgrade leaves a Job that runs alone"
    world.jobs = {}
    world.settle()
    assert list(world.jobs) != [first], "a template can't change, so the name does"


@case("C1", breaks="engine_operator.domain.names:job_name", naive=by_attempt_alone)
def test_c1_what_an_older_converter_made_stays_valid() -> None:
    world = World()
    world.serves()
    world.jobs = {}
    world.policy = ANOTHER_IMAGE
    assert of_type(world.settle(), act.StartConversion, act.ApplyInferenceService) == []
    fresh = World(policy=ANOTHER_IMAGE)
    fresh.settle()
    assert fresh.key(3) == world.key(3), "the key of an artifact knows no converter"
    before = World()
    before.settle()
    assert fresh.job().name != before.job().name, "the name of a Job does"


def by_jobs_alone(goal: Goal, status: EngineStatus, round_: Round) -> Stage:
    """As operators do that take a Job for the truth."""
    return convert(replace(goal, manifest=ABSENT_MANIFEST), target_of(goal, round_), status, round_)


@case("C2", breaks="engine_operator.domain.plan:_work", naive=by_jobs_alone)
def test_c2_a_job_that_ended_and_was_removed_while_nobody_looked_is_not_made_again() -> None:
    world = World()
    world.settle()
    world.job_is(JobPhase.RUNNING)
    world.settle()
    world.converted()
    world.jobs = {}
    assert of_type(world.settle(), act.StartConversion) == []
    assert world.phase() == "RollingOut"


def the_old_one_first(goal: Goal, round_: Round) -> TargetStatus:
    """As queues do that finish what they began."""
    fresh = TargetStatus(goal.revision, goal.key, Phase.PENDING)
    return round_.observed.status.target or fresh


GONE = ProcessFailure("SourceMissing", "the source answered 404", 10)


@case("C3", breaks="engine_operator.domain.attempts:target_of", naive=the_old_one_first)
def test_c3_a_source_that_is_gone_is_told_and_a_newer_revision_goes_on_without_waiting() -> None:
    world = World()
    world.settle()
    world.job_is(JobPhase.FAILED, GONE)
    world.settle()
    assert world.phase() == "BackingOff"
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == reasons.SOURCE_MISSING
    world.wanted = 4
    world.settle()
    assert (world.job().artifact_key.revision, world.phase()) == (4, "Converting")
    assert world.status.target is not None
    assert world.status.target.attempts == 1


@case("C3", breaks="engine_operator.domain.backoff:Backoff.next_retry", naive=lambda _, __, ___, now: now)
def test_c3_a_source_that_stays_away_is_asked_for_a_few_times_and_then_one_failure_stays() -> None:
    world = World()
    world.settle()
    for _ in range(20):
        world.job_is(JobPhase.FAILED, GONE)
        world.settle()
        world.passes(hours=1)
        world.settle()
    assert world.job().attempt == world.policy.backoff.max_attempts
    assert world.said("Degraded") == ("True", reasons.RETRIES_EXHAUSTED)


def by_prefix(source: Any, origin: SourceRef, revision: int | None) -> ObjectStore:
    """As storage initializers take it: whatever begins like this."""
    return ObjectStore(f"{source.model_store.store.uri}/models/{origin.engine_id}_{revision}")


@case("C4", breaks="engine_operator.observe:archive", naive=by_prefix)
def test_c4_the_source_is_one_exact_key_that_no_other_revision_begins_with() -> None:
    place = ModelStoreSpec(StoreAccess.BUCKET, ObjectStore("s3://serval/production/"))
    source = replace(SOURCE, model_store=place)
    found = [archive(source, SourceRef("main", ENGINE_ID), revision) for revision in (1, 10, 100)]
    uris = [one.uri for one in found if one is not None]
    assert uris[0] == f"s3://serval/production/models/{ENGINE_ID}_1.tar.gz"
    assert not [pair for pair in itertools.permutations(uris, 2) if pair[1].startswith(pair[0])]


def flat(self: Desired, key: ArtifactKey) -> str:
    """Names beside each other, told apart by how they end."""
    return f"{self.artifact_store.uri}/{self.installation}/{key.engine_id}-r{key.revision}"


@case("C4", breaks="engine_operator.domain.desired:Desired.location", naive=flat)
def test_c4_what_a_conversion_writes_is_a_folder_that_no_other_one_begins_with() -> None:
    world = World()
    places = [world.desired().location(world.key(revision)) for revision in (1, 10, 100)]
    assert [place[-1] for place in places] == ["/"] * 3
    assert not [pair for pair in itertools.permutations(places, 2) if pair[1].startswith(pair[0])]


def partial(world: World, at: datetime) -> StoredArtifact:
    """What a converter left that was killed after two of four files, beside what the next one finished."""
    attempts = (StoredAttempt("a1-000000", at), StoredAttempt("a2-111111", at + timedelta(minutes=5)))
    return StoredArtifact(world.key(3), True, attempts, "a2-111111")


@case("C6", breaks="engine_operator.domain.plan:_work", naive=by_jobs_alone)
@case("C6", breaks="engine_operator.domain.collect:_stale_attempts", naive=lambda *_: ())
def test_c6_half_an_upload_is_never_served_and_goes_once_nobody_can_be_writing_it() -> None:
    world = World()
    world.settle()
    world.job_is(JobPhase.FAILED, ProcessFailure("ConversionFailed", "exit code 137", 137))
    world.settle()
    assert world.service is None, "files without a manifest are nothing"
    world.passes(minutes=5)
    world.settle()
    assert world.job().attempt == 2
    world.converted()
    world.settle()
    world.ready()
    world.settle()
    assert world.serving() == 3
    world.stored = (partial(world, world.now),)
    assert of_type(world.settle(), act.CollectArtifacts) == []
    world.passes(hours=25)
    (collected,) = of_type(world.round(), act.CollectArtifacts)
    assert isinstance(collected, act.CollectArtifacts)
    assert collected.folders == (f"{world.key(3)}/a1-000000/",)


@case("C8", breaks="engine_operator.store.preflight:refuse_misplaced_endpoint")
@pytest.mark.parametrize(
    "key",
    ["serving.kserve.io/s3-endpoint", "serving.kubeflow.org/s3-endpoint", "serving.kserve.io/s3_endpoint"],
)
def test_c8_an_address_that_is_written_where_nobody_reads_it_is_named_with_its_right_place(key: str) -> None:
    secret = {"metadata": {"annotations": {key: "minio.example:9000"}}}
    with pytest.raises(StoreMisconfigured) as caught:
        refuse_misplaced_endpoint("store", secret)
    for part in (f"'{key}'", "'store'", "artifactStore.endpoint", "http://minio.example:9000"):
        assert part in str(caught.value)
    refuse_misplaced_endpoint("store", {"metadata": {"annotations": {key: "s3.amazonaws.com"}}})
    refuse_misplaced_endpoint("store", {"metadata": {}})


def guessed(name: str, secret: Any) -> Any:
    """Takes whatever looks like a key."""
    return [base64.b64decode(value).decode() for value in secret["data"].values()]


@case("C8", breaks="engine_operator.store.preflight:store_keys", naive=guessed)
def test_c8_a_key_that_is_misspelt_is_named_with_its_right_spelling() -> None:
    data = {"aws_access_key_id": "eA==", "AWS_SECRET_ACCESS_KEY": "eA=="}
    with pytest.raises(
        StoreMisconfigured, match="'aws_access_key_id', which must be spelled AWS_ACCESS_KEY_ID"
    ):
        store_keys("store", {"data": data})


REQUESTS = {"memory": "1999Mi", "ephemeral-storage": "7950Mi"}
LIMITS = {"memory": "2511Mi", "ephemeral-storage": "8974Mi"}


def failed_job(**status: Any) -> JobState:
    """A Job whose pod failed, with the pod's resources."""
    pod = job_pod("n")
    pod["spec"]["containers"] = [{"name": "converter", "resources": {"requests": REQUESTS, "limits": LIMITS}}]
    pod["status"] |= status
    ended = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    found = job_state(job(conditions=[ended]), [pod], None)
    assert found is not None
    return found


def killed() -> JobState:
    """By the kernel, for memory."""
    terminated = {"exitCode": 137, "reason": "OOMKilled"}
    return failed_job(containerStatuses=[{"name": "converter", "state": {"terminated": terminated}}])


EVICTED = "Pod ephemeral local storage usage exceeds the total limit of containers 8974Mi. "


@case("C9", breaks="engine_operator.cluster.converter_pod:sized", naive=lambda failure, _: failure)
def test_c9_a_conversion_that_was_killed_for_memory_says_what_it_had() -> None:
    failure = killed().failure
    assert failure is not None
    assert failure.reason == reasons.CONVERSION_OUT_OF_MEMORY
    assert "asked for 1999Mi and was allowed 2511Mi" in failure.message


def memory_of(world: World) -> str:
    """What the latest started conversion may use."""
    *_, last = (one for one in world.done if isinstance(one, act.StartConversion))
    return str(last.plan.resources.limits["memory"])


@case("C9", breaks="engine_operator.domain.attempts:_as_large_as_it_gets", naive=lambda *_: False)
@case("C9", breaks="engine_operator.domain.attempts:outgrew", naive=lambda *_: False)
def test_c9_it_is_tried_once_more_with_more_and_then_given_up() -> None:
    world = World()
    world.settle()
    plain = memory_of(world)
    for _ in range(4):
        world.job_is(JobPhase.FAILED, killed().failure)
        world.settle()
        world.passes(hours=1)
        world.settle()
    assert world.job().attempt == 2
    assert int(memory_of(world)[:-2]) > 1.5 * int(plain[:-2])
    assert world.said("Degraded") == ("True", reasons.RETRIES_EXHAUSTED)
    world.wanted = 4
    world.settle()
    assert (world.job().attempt, memory_of(world)) == (1, plain), "another model starts as all do"


def test_c9_without_an_escalation_it_is_given_up_at_once() -> None:
    world = World(policy=replace(POLICY, escalation=1.0))
    world.settle()
    world.job_is(JobPhase.FAILED, killed().failure)
    world.settle()
    world.passes(hours=1)
    world.settle()
    assert world.job().attempt == 1
    other = World()
    other.settle()
    other.job_is(JobPhase.FAILED, FAILED)
    other.settle()
    assert other.status.target is not None
    assert other.status.target.next_retry is not None, "other failures are tried again as ever"


@case("C12", breaks="engine_operator.cluster.converter_pod:sized", naive=lambda failure, _: failure)
def test_c12_a_conversion_that_was_evicted_for_its_disk_says_disk_and_how_much() -> None:
    failure = failed_job(phase="Failed", reason="Evicted", message=EVICTED).failure
    assert failure is not None
    assert failure.reason == reasons.CONVERSION_OUT_OF_DISK
    assert "asked for 7950Mi and was allowed 8974Mi" in failure.message


@case("C12", breaks="engine_operator.cluster.converter_pod:unscheduled", naive=lambda _: None)
def test_c12_a_conversion_that_no_node_has_the_disk_for_says_so_while_it_waits() -> None:
    told = "0/3 nodes are available: 3 Insufficient ephemeral-storage."
    pod = job_pod(None)
    pod["spec"]["containers"] = [{"name": "converter", "resources": {"requests": REQUESTS}}]
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": told}]
    waiting = job_state(job(), [pod], None)
    assert waiting is not None
    world = World()
    world.settle()
    name = world.job().name
    world.jobs[name] = replace(world.jobs[name], unschedulable=waiting.unschedulable)
    world.settle()
    message = world.condition("Progressing").message
    assert told in message
    assert "7950Mi of ephemeral-storage" in message


def the_same_for_all(_: int) -> Resources:
    """A figure that somebody once chose."""
    return Resources({"ephemeral-storage": "8Gi"}, {"ephemeral-storage": "8Gi"})


@case("C12", breaks="engine_operator.domain.budget:conversion_resources", naive=the_same_for_all)
def test_c12_the_disk_of_a_conversion_follows_from_the_size_of_its_model() -> None:
    def disk(size: int) -> int:
        return int(str(conversion_resources(size).requests["ephemeral-storage"])[:-2]) * 2**20

    for size in (300_000_000, 2_600_000_000, 7_000_000_000):
        assert 3 * size <= disk(size) <= 3 * size + 2**30, "archive, unpacked files and result"
