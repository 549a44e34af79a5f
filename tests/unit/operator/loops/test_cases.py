"""Handed situations about looks and what they gather: D2, F1."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from engine_operator.cluster.autoscaler import refusal
from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.events import EventRecorder
from engine_operator.cluster.facts import pod_state
from engine_operator.cluster.reader import ClusterReader
from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.conditions import held_up
from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus, PodState
from engine_operator.domain.plan import plan
from engine_operator.executor import Executor
from engine_operator.loops.look import Looker, _planned
from engine_operator.observe import Observer
from tests.support.cases import case
from tests.support.fake_cluster import FakeCluster, status_answer
from tests.unit.operator.cluster.test_facts import pod
from tests.unit.operator.domain.test_swap import gpu
from tests.unit.operator.domain.world import NAME, World, of_type

HOOK = "inferenceservice.kserve-webhook-server.defaulter"
AWAY = f'Internal error occurred: failed calling webhook "{HOOK}": no endpoints available for service'
SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/live/inferenceservices"


def away(request: Any) -> Any:
    """KServe's webhook has no endpoints."""
    return status_answer(500, "InternalError", AWAY) if request.url.path.startswith(SERVICES) else None


async def looked(world: World, cluster: FakeCluster) -> Any:
    """One look's end: what was planned is carried out, and a failure is told."""
    client: ClusterClient = cluster.client()
    executor = Executor(client, EventRecorder(client, "test"), cast(Any, None))
    round_ = Round(world.desired(), world.observed(), world.now, world.policy)
    actions = plan(round_.desired, round_.observed, round_.now, round_.policy)
    outcome = await executor.run(actions)
    assert outcome.error is not None
    nobody = cast(Any, None)
    looker = Looker(nobody, nobody, nobody, nobody, world.policy)
    return await looker._failed(outcome, executor, round_, _planned(actions, round_))


def no_word(status: EngineStatus, round_: Round, reason: str, message: str) -> EngineStatus:
    """As loops do that only log it."""
    return status


@case("D2", breaks="engine_operator.domain.conditions:held_up", naive=no_word)
async def test_d2_a_webhook_that_is_away_is_named_once_and_is_no_failure_of_the_engine() -> None:
    world = World()
    world.settle()
    world.converted()
    cluster = FakeCluster()
    cluster.interfere = away
    status_path = f"/apis/serval-live.dev/v1alpha1/namespaces/live/translationengines/{NAME}"
    for _ in range(6):
        found = await looked(world, cluster)
        assert found.passing is not None, "it is tried again with a growing wait"
        said = cluster.objects[status_path]["status"]["conditions"]
        (progressing,) = [one for one in said if one["type"] == "Progressing"]
        assert (progressing["status"], progressing["reason"]) == ("True", reasons.WEBHOOK_UNAVAILABLE)
        assert HOOK in progressing["message"]
        round_ = Round(world.desired(), world.observed(), world.now, world.policy)
        world.status = held_up(world.status, round_, reasons.WEBHOOK_UNAVAILABLE, progressing["message"])
        world.passes(seconds=30)
    told = [path for verb, path in cluster.writes if path.endswith("/status")]
    assert len(told) == 1, "three minutes of the same are told once"
    assert world.status.last_failure is None
    done = world.settle()
    assert len(of_type(done, act.ApplyInferenceService)) == 1
    assert of_type(done, act.StartConversion) == [], "nothing is converted again"
    assert world.said("Progressing")[1] != reasons.WEBHOOK_UNAVAILABLE
    assert len(world.status.conditions) == 6


NO_GROUP = "pod didn't trigger scale-up: 1 node(s) had untolerated taint {nvidia.com/gpu: present}"
SCHEDULER = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def event(reason: str, note: str, at: str, component: str = "cluster-autoscaler") -> dict[str, Any]:
    """An Event of the older recorder, as the newer API shows it."""
    return {
        "metadata": {"name": f"p.{reason}.{at}", "namespace": "live", "creationTimestamp": at},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "live"},
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": at,
        "deprecatedSource": {"component": component},
    }


def waiting() -> dict[str, Any]:
    found = pod(conditions=[{"type": "PodScheduled", "status": "False", "message": SCHEDULER}])
    found["metadata"]["namespace"] = "live"
    return found


async def seen(*events: dict[str, Any]) -> PodState:
    """The pod as it is gathered while these Events exist."""
    cluster = FakeCluster()
    for one in events:
        cluster.put(f"/apis/events.k8s.io/v1/namespaces/live/events/{one['metadata']['name']}", one)
    return await Observer(ClusterReader(cluster.client()), cast(Any, None))._pod(waiting())


def never(events: Iterable[dict[str, Any]]) -> str | None:
    """As operators do that read pods alone."""
    return None


@case("F1", breaks="engine_operator.cluster.autoscaler:refusal", naive=never)
async def test_f1_the_autoscalers_no_stands_on_the_conditions_in_its_own_words() -> None:
    found = await seen(
        event("FailedScheduling", SCHEDULER, "2026-11-30T18:00:01Z", "default-scheduler"),
        event("NotTriggerScaleUp", NO_GROUP, "2026-11-30T18:00:05Z"),
    )
    assert (found.unschedulable, found.refused) == (SCHEDULER, NO_GROUP)
    world = gpu_that_wakes()
    world.pod_of(world.latest().name, unschedulable=SCHEDULER, refused=found.refused)
    world.passes(seconds=10)
    world.settle()
    assert world.said("Available") == ("False", reasons.NODE_POOL_UNAVAILABLE)
    assert NO_GROUP in world.condition("Available").message
    first = World()
    first.publish(3)
    first.settle()
    first.pod_of(first.latest().name, unschedulable=SCHEDULER, refused=found.refused)
    first.settle()
    assert first.said("Progressing") == ("True", reasons.NODE_POOL_UNAVAILABLE)
    assert NO_GROUP in first.condition("Progressing").message
    first.ready()
    first.settle()
    assert first.serving() == 3, "a pool that is repaired in time needs no help"


def gpu_that_wakes() -> World:
    from engine_operator.domain.engine import Strategy

    world = gpu(Strategy.AUTO)
    world.serves(3)
    world.asleep()
    world.passes(hours=1)
    return world


@case("F1", breaks="engine_operator.cluster.autoscaler:_answer", naive=lambda event: "no")
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((event("TriggeredScaleUp", "pod triggered scale-up", "2026-11-30T18:00:05Z"),), None),
        (
            (
                event("NotTriggerScaleUp", NO_GROUP, "2026-11-30T18:00:05Z"),
                event("TriggeredScaleUp", "pod triggered scale-up", "2026-11-30T18:00:15Z"),
            ),
            None,
        ),
        ((event("FailedScheduling", SCHEDULER, "2026-11-30T18:00:05Z", "default-scheduler"),), None),
        ((event("FailedScheduling", "no nodepool", "2026-11-30T18:00:05Z", "karpenter"),), "no nodepool"),
    ],
)
async def test_f1_a_node_that_is_on_its_way_is_waited_for_and_karpenters_no_counts_too(
    events: tuple[dict[str, Any], ...], expected: str | None
) -> None:
    assert refusal(events) == expected
    assert (await seen(*events)).refused == expected


async def test_without_the_right_to_list_events_the_schedulers_words_stay() -> None:
    cluster = FakeCluster()
    cluster.interfere = lambda _: status_answer(403, "Forbidden", "events is forbidden")
    found = await Observer(ClusterReader(cluster.client()), cast(Any, None))._pod(waiting())
    assert found == replace(pod_state(waiting()), refused=None)
    assert found.unschedulable == SCHEDULER
