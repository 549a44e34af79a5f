"""The plan, told as what happens to one engine."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    JobPhase,
    Phase,
)
from engine_operator.domain.rollout import occupies_place
from tests.unit.operator.domain.world import FAILED, World


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
