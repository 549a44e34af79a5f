"""The plan where something outside changes, is silent, refuses or was undone by hand."""

from dataclasses import replace

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.observed import (
    EngineStatus,
)
from engine_operator.domain.serval_facts import Existence, Verdict
from tests.unit.operator.domain.world import World, engine, of_type


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
