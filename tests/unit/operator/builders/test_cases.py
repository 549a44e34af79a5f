"""Handed situations about what a pod is given: p71, p75, p79."""

from dataclasses import replace
from typing import Any

import pytest

from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.domain import actions as act
from engine_operator.domain.budget import conversion_resources
from engine_operator.domain.engine import Profile, Protocol, Resources, ServingSpec
from tests.support.cases import case
from tests.unit.operator.builders.test_inferenceservice import container, template
from tests.unit.operator.domain.world import World, engine, of_type

GIB = 1024
"""In MiB."""
SMALL, LARGE = 620_000_000, 3_400_000_000
"""Converted 600M and 3.3B models in int8: a byte per parameter and the tokenizer."""


def mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * (GIB if quantity.endswith("Gi") else 1)


def applied(world: World) -> act.ApplyInferenceService:
    found = of_type(world.done, act.ApplyInferenceService)[-1]
    assert isinstance(found, act.ApplyInferenceService)
    return found


def world_of(model_bytes: int, serving: ServingSpec) -> World:
    world = World(spec=engine(serving=serving))
    world.publish(3)
    found = world.manifests[world.key(3)]
    world.manifests[world.key(3)] = replace(found, model_bytes=model_bytes, source_bytes=4 * model_bytes)
    world.settle()
    return world


def the_profiles(base: Resources, model_bytes: int) -> Resources:
    """As charts do: one number for all."""
    return base


@case("p71", breaks="engine_operator.domain.budget:predictor_resources", naive=the_profiles)
@pytest.mark.parametrize("profile", list(Profile))
def test_p71_memory_and_disk_of_a_pod_follow_its_own_model(profile: Profile) -> None:
    given = {}
    for size in (SMALL, LARGE):
        found = inference_service(applied(world_of(size, ServingSpec(profile=profile))).template)
        given[size] = container(found)["resources"]
        needed = size / 2**20
        assert mebibytes(given[size]["requests"]["memory"]) > needed
        assert mebibytes(given[size]["limits"]["memory"]) > needed + GIB
        assert mebibytes(given[size]["requests"]["ephemeral-storage"]) > needed
        volumes = {one["name"]: one for one in found["spec"]["predictor"]["volumes"]}
        assert volumes["cache"]["emptyDir"] == {}, "no limit of a volume evicts a pod whose model is larger"
    assert mebibytes(given[SMALL]["limits"]["memory"]) < mebibytes(given[LARGE]["limits"]["memory"]) or (
        profile is Profile.GPU
    )


def test_what_a_person_chose_stays_whatever_the_size() -> None:
    wish = Resources({"memory": "2Gi"}, {"memory": "3Gi"})
    found = inference_service(applied(world_of(LARGE, ServingSpec(resources=wish))).template)
    assert container(found)["resources"] == {"requests": {"memory": "2Gi"}, "limits": {"memory": "3Gi"}}


def test_a_size_that_is_learned_later_restarts_nothing() -> None:
    world = World()
    world.serves(3)
    before = world.writes
    world.manifests[world.key(3)] = replace(world.manifests[world.key(3)], model_bytes=LARGE)
    world.settle()
    assert world.writes == before


def as_assumed(round_: Any) -> int:
    """As those do that know one model."""
    size: int = round_.policy.assumed_source_bytes
    return size


@case("p71", breaks="engine_operator.domain.conversion:expected_source", naive=as_assumed)
def test_p71_a_conversion_is_sized_by_the_archive_that_its_engine_had_before() -> None:
    world = World()
    world.serves(3)
    large = 13_000_000_000
    world.manifests[world.key(3)] = replace(world.manifests[world.key(3)], source_bytes=large)
    world.wanted = 4
    world.settle()
    started = of_type(world.done, act.StartConversion)[-1]
    assert isinstance(started, act.StartConversion)
    disk = mebibytes(started.plan.resources.requests["ephemeral-storage"])
    assert disk > 3 * large / 2**20
    assert disk > mebibytes(
        conversion_resources(world.policy.assumed_source_bytes).requests["ephemeral-storage"]
    )


def one_at_a_time(template: act.ServiceTemplate) -> dict[str, Any]:
    """As those do that take concurrency for a limit: whoever comes tenth is refused by Knative's proxy."""
    return {"containerConcurrency": 1, "scaleMetric": "concurrency", "scaleTarget": 1, "containers": [{}]}


@case("p75", breaks="engine_operator.cluster.builders.inferenceservice:_predictor", naive=one_at_a_time)
def test_p75_concurrency_is_a_target_for_scaling_and_the_predictors_own_queue_the_limit() -> None:
    for profile in Profile:
        predictor = inference_service(template(ServingSpec(profile=profile)))["spec"]["predictor"]
        assert predictor["containerConcurrency"] == 0, (
            "Knative's proxy lets every call through to the batches"
        )
        assert predictor["scaleMetric"] == "concurrency"
        assert predictor["scaleTarget"] >= 8
    chosen = inference_service(template(ServingSpec(concurrency=50)))["spec"]["predictor"]
    assert (chosen["containerConcurrency"], chosen["scaleTarget"]) == (0, 50)


def both_unnamed(protocol: Protocol) -> dict[str, Any]:
    """As manifests do that were written for REST: gRPC is then answered with Unimplemented."""
    return {"containerPort": 8081 if protocol is Protocol.GRPC else 8080, "protocol": "TCP"}


@case("p79", breaks="engine_operator.cluster.builders.inferenceservice:_port", naive=both_unnamed)
def test_p79_the_one_port_of_an_engine_is_named_for_the_protocol_that_was_chosen() -> None:
    def ports(serving: ServingSpec) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = container(inference_service(template(serving)))["ports"]
        return found

    (grpc,), (rest,) = ports(ServingSpec(protocol=Protocol.GRPC)), ports(ServingSpec())
    assert (grpc["name"], grpc["containerPort"]) == ("h2c", 8081)
    assert (rest.get("name"), rest["containerPort"]) == (None, 8080)
    world = World(spec=engine(serving=ServingSpec(protocol=Protocol.GRPC)))
    world.serves(3)
    assert world.status.serving is not None
    assert world.status.serving.protocol is Protocol.GRPC, "clients are told which one"
