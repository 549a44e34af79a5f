"""A pool of GPU nodes that is empty while nobody needs it: a node gets its GPU only after its boot, and loses it again.

The cluster's autoscaler is played by the tests; scheduler, kubelet, Knative and the Events are real. No GPU is needed:
the predictor computes on the processor.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.live.calls import connect
from tests.support.live.kubectl import Object, condition
from tests.support.live.nodes import (
    GPU,
    give_gpus,
    say_as_autoscaler,
    take_gpus,
    wait_until_no_gpu_is_left,
)
from tests.support.live.world import NAMESPACE, SOURCE, World
from tests.support.serval import EngineSpec
from tests.support.waiting import consistently_sync

NAME = "on-gpu"
BOOT_SECONDS = 3.0
"""From the autoscaler's decision to a node that has a GPU."""
FULL = "pod didn't trigger scale-up: 1 max node group size reached"
COMING = "pod triggered scale-up: [{gpu-pool 0->1 (max: 1)}]"
TEXT = "In the beginning."


@dataclass(frozen=True)
class FirstRollout:
    """What the engine's conditions said while its first revision had no node. Each is a Kubernetes condition."""

    pool_is_full: Object
    """`Progressing` after the autoscaler had said no."""
    node_is_coming: Object
    """`Progressing` after it had said yes."""
    failure: Object | None
    """`status.lastFailure` when the revision served at last."""


def told(world: World, kind: str) -> Object:
    """A condition of the engine."""
    return condition(world.engine(NAME), kind)


def waiting_pod(world: World) -> Object:
    """The predictor's pod that the scheduler has no node for; empty if there is none."""
    for pod in world.pods(NAME):
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("reason") == "Unschedulable" and "deletionTimestamp" not in pod["metadata"]:
            return pod
    return {}


def boot_a_node(world: World) -> None:
    """The autoscaler brings a node; while it boots, the pod waits."""
    consistently_sync(lambda: waiting_pod(world), for_=BOOT_SECONDS, interval=0.5)
    give_gpus(world.kubectl, 1)


def ask_for_a_gpu(world: World, engine: str) -> None:
    """The engine as a person writes it whose models run on GPUs."""
    small = {"cpu": "50m", "memory": "256Mi", GPU: "1"}
    world.kubectl.apply(
        {
            "apiVersion": "serval-live.dev/v1alpha1",
            "kind": "TranslationEngine",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "source": {"servalSource": SOURCE, "engineId": engine},
                "serving": {"resources": {"requests": small, "limits": {"memory": "2Gi", GPU: "1"}}},
            },
        }
    )


@pytest.fixture(scope="session")
def first_rollout(world: World, first_archive: Path) -> Iterator[FirstRollout]:
    """An engine whose first revision serves on a node that had to boot; until the end of the run."""
    engine = world.serval.add_engine(EngineSpec(name=NAME, source="en", target="es")).id
    wait_until_no_gpu_is_left(world.kubectl)
    ask_for_a_gpu(world, engine)
    try:
        world.serval.run_build(engine, first_archive)
        pod = world.wait("a pod without a node", lambda: waiting_pod(world), 120, NAME)
        say_as_autoscaler(world.kubectl, pod, "NotTriggerScaleUp", FULL)
        full = world.wait(
            "an engine whose pool is full", lambda: said(world, "NodePoolUnavailable", FULL), 60, NAME
        )
        say_as_autoscaler(world.kubectl, pod, "TriggeredScaleUp", COMING)
        coming = world.wait(
            "an engine that waits for a node", lambda: said(world, "RollingOut", "WaitingForNode"), 60, NAME
        )
        boot_a_node(world)
        world.wait("revision 1", lambda: world.serving_revision(NAME) == 1, 120, NAME)
        yield FirstRollout(full, coming, (world.engine(NAME) or {})["status"].get("lastFailure"))
    finally:
        take_gpus(world.kubectl)
        world.kubectl.delete("translationengine", NAME)


def said(world: World, reason: str, words: str) -> Object:
    """`Progressing`, if it gives this reason in these words; else empty."""
    progressing = told(world, "Progressing")
    return progressing if progressing.get("reason") == reason and words in progressing["message"] else {}


@pytest.mark.timeout(300)
def test_a_first_revision_without_a_node_waits_in_the_autoscalers_words_and_is_no_failure(
    first_rollout: FirstRollout,
) -> None:
    assert first_rollout.pool_is_full["status"] == "True", "a rollout that waits still progresses"
    assert GPU in first_rollout.node_is_coming["message"], "the scheduler says what is missing"
    assert first_rollout.failure is None


@pytest.mark.timeout(300)
def test_a_node_that_went_while_its_engine_slept_boots_again_for_the_call_that_wakes_it(
    world: World, first_rollout: FirstRollout
) -> None:
    world.wait("scale to zero", lambda: not world.pods(NAME), 240, NAME)
    take_gpus(world.kubectl)
    wait_until_no_gpu_is_left(world.kubectl)
    available = told(world, "Available")
    assert (available["status"], available["reason"]) == ("True", "Asleep")
    assert asyncio.run(call_while_no_node_has_a_gpu(world)) == 1
    world.wait("an engine that serves", lambda: world.available(NAME).get("reason") == "Serving", 60, NAME)
    assert (world.engine(NAME) or {})["status"].get("lastFailure") is None


async def call_while_no_node_has_a_gpu(world: World) -> int:
    """Call, see the engine wait for a node, let one boot; the revision that answers the call in the end."""
    async with connect(world.endpoint(NAME), patience=120) as connection:
        call = asyncio.create_task(connection.translate(TEXT))
        await asyncio.to_thread(
            world.wait,
            "an engine that waits for a node",
            lambda: world.available(NAME).get("reason") == "WaitingForNode",
            60,
            NAME,
        )
        available = world.available(NAME)
        assert available["status"] == "True", "waiting for a node is no failure"
        assert GPU in available["message"], "the scheduler says what is missing"
        assert not call.done(), "the call is held"
        await asyncio.to_thread(boot_a_node, world)
        return (await call).revision
