"""The table from facts to conditions."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from engine_operator.domain import reasons
from engine_operator.domain.observed import ABSENT_MANIFEST, ConditionStatus, PodState, ProcessFailure
from tests.unit.operator.domain.world import START, World

READY: dict[str, object] = {"ready": True}
BOOTING: dict[str, object] = {"ready": False}
NO_NODE: dict[str, object] = {"ready": False, "unschedulable": "0/3 nodes are available"}
BROKEN: dict[str, object] = {
    "ready": False,
    "failure": ProcessFailure("ChecksumMismatch", "model.bin differs", 34),
}


@dataclass(frozen=True)
class Row:
    """Facts of an engine that has served, and what its conditions say."""

    tells: str
    pods: tuple[dict[str, object], ...] = ()
    age: timedelta = timedelta(minutes=1)
    """Of the pods."""
    manifest: bool = True
    service_ready: ConditionStatus = ConditionStatus.TRUE
    wanted: int | None = 3
    suspended: bool = False
    expected: dict[str, tuple[str, str]] = field(default_factory=dict)


TABLE = [
    Row("a ready pod serves", (READY,), expected={"Available": ("True", reasons.SERVING)}),
    Row("no pod is sleep, not absence", expected={"Available": ("True", reasons.ASLEEP)}),
    Row("a pod that boots wakes", (BOOTING,), expected={"Available": ("True", reasons.WAKING)}),
    Row(
        "a pod without a node waits within the node's budget",
        (NO_NODE,),
        timedelta(minutes=7),
        service_ready=ConditionStatus.FALSE,
        expected={"Available": ("True", reasons.WAITING_FOR_NODE)},
    ),
    Row(
        "a node that never comes is a failed wake",
        (NO_NODE,),
        timedelta(minutes=9),
        expected={"Available": ("False", reasons.WAKE_FAILED)},
    ),
    Row("a load error is a failed wake", (BROKEN,), expected={"Available": ("False", reasons.WAKE_FAILED)}),
    Row(
        "one ready pod outweighs a broken one",
        (BROKEN, READY),
        expected={"Available": ("True", reasons.SERVING)},
    ),
    Row(
        "KServe's Ready decides nothing",
        (READY,),
        service_ready=ConditionStatus.FALSE,
        expected={"Available": ("True", reasons.SERVING), "Degraded": ("False", reasons.AS_EXPECTED)},
    ),
    Row(
        "a lost manifest is told although a pod runs",
        (READY,),
        manifest=False,
        expected={
            "Available": ("False", reasons.MODEL_GONE),
            "ModelConverted": ("False", reasons.CONVERTING),
            "StorageReady": ("True", reasons.STORAGE_REACHABLE),
        },
    ),
    Row(
        "everything as wanted",
        (READY,),
        expected={
            "Available": ("True", reasons.SERVING),
            "UpToDate": ("True", reasons.CURRENT),
            "Progressing": ("False", reasons.SERVING),
            "ModelConverted": ("True", reasons.CONVERTED),
            "StorageReady": ("True", reasons.STORAGE_REACHABLE),
            "Degraded": ("False", reasons.AS_EXPECTED),
        },
    ),
    Row(
        "a newer build is on its way",
        (READY,),
        wanted=4,
        expected={
            "Available": ("True", reasons.SERVING),
            "UpToDate": ("False", reasons.NEWER_MODEL),
            "Progressing": ("True", reasons.CONVERTING),
            "ModelConverted": ("False", reasons.CONVERTING),
        },
    ),
    Row(
        "suspended is not available",
        suspended=True,
        expected={"Available": ("False", reasons.SUSPENDED), "Progressing": ("False", reasons.SUSPENDED)},
    ),
    Row(
        "Serval is silent",
        (READY,),
        wanted=None,
        expected={"UpToDate": ("Unknown", reasons.REVISION_UNKNOWN)},
    ),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.tells)
def test_conditions_follow_from_facts(row: Row) -> None:
    world = World()
    world.serves(3)
    world.jobs = {}
    name = world.latest().name
    world.pods = [
        replace(PodState(f"p{n}", name, START, False), created=world.now - row.age, **facts)  # type: ignore[arg-type]
        for n, facts in enumerate(row.pods)
    ]
    world.manifests = world.manifests if row.manifest else {world.key(3): ABSENT_MANIFEST}
    assert world.service is not None
    world.service = replace(world.service, ready=row.service_ready)
    world.wanted, world.spec = row.wanted, replace(world.spec, suspended=row.suspended)
    world.settle()
    assert {kind: world.said(kind) for kind in row.expected} == row.expected


def test_engine_that_never_served_is_not_available_and_says_why() -> None:
    world = World()
    world.settle()
    assert world.said("Available") == ("False", reasons.NEVER_SERVED)
    assert world.said("UpToDate") == ("False", reasons.NEVER_SERVED)


def test_failed_wake_is_remembered_until_a_pod_is_ready_again() -> None:
    world = World()
    world.serves()
    name = world.latest().name
    world.asleep()
    world.settle()
    world.pod_of(name, **BROKEN)
    world.settle()
    world.asleep()
    world.settle()
    assert world.said("Available") == ("False", reasons.WAKE_FAILED)
    world.pod_of(name, ready=False)
    world.settle()
    assert world.said("Available") == ("False", reasons.WAKE_FAILED)
    world.pod_of(name, ready=True)
    world.settle()
    assert world.said("Available") == ("True", reasons.SERVING)


def test_time_of_a_condition_moves_only_with_its_status() -> None:
    world = World()
    world.serves()
    since = world.condition("Available").last_transition
    world.passes(minutes=5)
    world.asleep()
    world.settle()
    assert world.said("Available") == ("True", reasons.ASLEEP)
    assert world.condition("Available").last_transition == since
    world.passes(minutes=5)
    world.manifests = {}
    world.settle()
    assert world.condition("Available").last_transition == world.now


def test_traffic_of_a_stale_revision_is_not_up_to_date() -> None:
    """Ready=True of an older generation proves nothing: the revision with all traffic must name the model."""
    world = World()
    world.serves(3)
    world.wanted = 4
    world.settle()
    world.converted()
    world.settle()
    assert world.service is not None
    world.service = replace(world.service, ready=ConditionStatus.TRUE)
    world.settle()
    assert world.said("UpToDate") == ("False", reasons.NEWER_MODEL)
