"""Quotas, the warm budget and GPUs: tables of what is decided."""

from datetime import timedelta

import pytest

from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.domain.capacity import (
    Gpu,
    Quota,
    Resident,
    Taken,
    WarmBudget,
    bounded_replicas,
    kept_awake,
    shortage,
    taken_by,
)
from engine_operator.domain.desired import template_hash
from engine_operator.domain.effective import bounded, effective, with_gpu
from engine_operator.domain.engine import Profile, Resources, ServingSpec
from tests.unit.operator.builders.test_inferenceservice import template
from tests.unit.operator.domain.world import DEFAULTS, START, engine

NONE = Quota()


@pytest.mark.parametrize(
    ("quota", "others", "own", "lacks"),
    [
        (NONE, Taken(900, 900, 900), Taken(1, 5, 5), None),
        (Quota(awake_engines=3), Taken(2, 2, 0), Taken(1, 1, 0), None),
        (Quota(awake_engines=3), Taken(3, 3, 0), Taken(1, 1, 0), "awakeEngines"),
        (Quota(pods=4), Taken(1, 2, 0), Taken(1, 2, 0), None),
        (Quota(pods=4), Taken(1, 3, 0), Taken(1, 2, 0), "pods"),
        (Quota(gpus=2), Taken(1, 1, 1), Taken(1, 1, 1), None),
        (Quota(gpus=2), Taken(1, 1, 1), Taken(1, 2, 2), "gpus"),
        (Quota(gpus=2), Taken(), Taken(1, 1, 4), "gpus is 2, and this engine alone needs 4"),
        (Quota(gpus=1), Taken(5, 5, 0), Taken(1, 1, 0), None),
    ],
)
def test_a_quota_is_for_the_source_as_a_whole(
    quota: Quota, others: Taken, own: Taken, lacks: str | None
) -> None:
    told = shortage(quota, others, own)
    assert (told is None) if lacks is None else (told is not None and lacks in told)


def test_what_a_quota_says_stays_while_the_others_come_and_go() -> None:
    quota, own = Quota(pods=2), Taken(1, 1, 0)
    assert shortage(quota, Taken(2, 2, 0), own) == shortage(quota, Taken(7, 9, 0), own)


def test_pods_of_an_engine_that_sleeps_take_nothing() -> None:
    assert taken_by(0, 2) == Taken()
    assert taken_by(3, 2) == Taken(1, 3, 6)


@pytest.mark.parametrize(
    ("wished", "quota", "gpus", "most"),
    [
        (4, NONE, 1, 4),
        (4, Quota(pods=10), 1, 4),
        (4, Quota(pods=3), 0, 3),
        (4, Quota(gpus=2), 1, 2),
        (4, Quota(gpus=3), 2, 1),
        (4, Quota(gpus=1), 2, 1),
        (4, Quota(gpus=1), 0, 4),
    ],
)
def test_no_engine_alone_outgrows_the_quota(wished: int, quota: Quota, gpus: int, most: int) -> None:
    assert bounded_replicas(wished, quota, gpus) == most
    spec = engine(serving=ServingSpec(max_replicas=wished, min_replicas=wished))
    if gpus == 0:
        found = bounded(effective(spec, None, DEFAULTS), quota).serving
        assert (found.min_replicas, found.max_replicas) == (most, most)


def awake(name: str, woke: float, used: float | None = None) -> Resident:
    """An engine that woke, and was last called, so many minutes ago."""
    last = None if used is None else START - timedelta(minutes=used)
    return Resident(name, START - timedelta(minutes=woke), last)


@pytest.mark.parametrize(
    ("residents", "places", "waiting", "kept"),
    [
        pytest.param([awake("a", 60, 5), awake("b", 60, 9)], 2, 0, "ab", id="room for all"),
        pytest.param(
            [awake("a", 60, 5), awake("b", 60, 9), awake("c", 20, 1)], 2, 0, "ac", id="oldest use goes"
        ),
        pytest.param([awake("a", 60, 50), awake("b", 5), awake("c", 9)], 2, 0, "bc", id="waking is a use"),
        pytest.param([awake("a", 60, 1), awake("b", 4, 4)], 1, 0, "b", id="least residency goes before use"),
        pytest.param([awake("a", 60, 5), awake("b", 60, 9)], 2, 1, "a", id="one that waits for room evicts"),
        pytest.param([awake("a", 60, 5)], 1, 3, "", id="more wait than there are places"),
        pytest.param([Resident("a"), awake("b", 60, 9)], 2, 0, "b", id="nobody is woken"),
        pytest.param(
            [Resident("a", pinned=True), awake("b", 60, 1)], 1, 0, "a", id="a pin counts, asleep or not"
        ),
        pytest.param([Resident("a", pinned=True)], 0, 2, "a", id="a pin is evicted by nobody"),
        pytest.param([awake("a", 60, 5)], 0, 0, "", id="no budget"),
    ],
)
def test_who_stays_awake(residents: list[Resident], places: int, waiting: int, kept: str) -> None:
    budget = WarmBudget(places, timedelta(minutes=10))
    assert kept_awake(residents, budget, waiting, START) == frozenset(kept)
    assert kept_awake(reversed(residents), budget, waiting, START) == frozenset(kept), "whatever the order"


def test_another_kind_or_number_of_gpus_replaces_the_profiles() -> None:
    spec = engine(serving=ServingSpec(profile=Profile.GPU, gpu=Gpu("nvidia.com/mig-1g.10gb", 2)))
    found = effective(spec, None, DEFAULTS)
    assert found.gpus_per_pod == 2
    for half in (found.serving.resources.requests, found.serving.resources.limits):
        assert half["nvidia.com/mig-1g.10gb"] == "2"
        assert "nvidia.com/gpu" not in half
    plain = effective(engine(serving=ServingSpec(profile=Profile.GPU)), None, DEFAULTS)
    assert (plain.gpus_per_pod, plain.gpu.resource) == (1, "nvidia.com/gpu")
    on_cpu = effective(engine(serving=ServingSpec(profile=Profile.CPU, gpu=Gpu(count=2))), None, DEFAULTS)
    assert on_cpu.gpus_per_pod == 0
    assert with_gpu(Resources({"cpu": "1"}), None) == Resources({"cpu": "1"})


def test_classes_of_pods_are_part_of_a_template_only_where_people_name_them() -> None:
    plain, named = template(), template(ServingSpec(runtime_class_name="nvidia", priority_class_name="live"))
    assert template_hash(plain) != template_hash(named)
    predictor = inference_service(named)["spec"]["predictor"]
    assert (predictor["runtimeClassName"], predictor["priorityClassName"]) == ("nvidia", "live")
    assert not {"runtimeClassName", "priorityClassName"} & set(inference_service(plain)["spec"]["predictor"])
