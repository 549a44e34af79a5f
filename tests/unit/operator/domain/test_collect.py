"""Garbage collection: what anything still names is never deleted."""

from dataclasses import replace
from datetime import timedelta

from engine_operator.domain import actions as act
from engine_operator.domain.collect import collect_orphans, named
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId
from engine_operator.domain.observed import EngineStatus, Observed, StoredArtifact, StoredAttempt
from tests.support.cases import case
from tests.unit.operator.domain.world import START, World, of_type


def artifact(key: ArtifactKey, *attempts: str, manifest: str | None = "a1") -> StoredArtifact:
    folders = tuple(StoredAttempt(name, START) for name in attempts or ("a1",))
    return StoredArtifact(key, manifest is not None, folders, manifest)


def after_builds(*revisions: int) -> World:
    """An engine that has served these revisions, one after the other, and sleeps."""
    world = World()
    for revision in revisions:
        world.serves(revision)
    world.jobs = {}
    world.asleep()
    world.stored = tuple(artifact(world.key(r)) for r in revisions)
    return world


def folders(world: World) -> list[str]:
    return [
        f
        for a in of_type(world.round(), act.CollectArtifacts)
        if isinstance(a, act.CollectArtifacts)
        for f in a.folders
    ]


def only_what_serves(observed: Observed, status: EngineStatus) -> frozenset[ArtifactKey]:
    """The naive version: forgets that revisions sleep."""
    return frozenset({status.serving.artifact_key} if status.serving else ())


@case("E4", breaks="engine_operator.domain.collect:named", naive=only_what_serves)
def test_e4_artifact_of_any_revision_that_exists_is_never_deleted() -> None:
    world = after_builds(1, 2, 3, 4, 5, 6)
    assert folders(world) == []
    world.revisions = [r for r in world.revisions if r.model_revision in (2, 6)]
    assert folders(world) == [f"{world.key(r)}/" for r in (1, 3, 4)]
    assert {a.key.revision for a in world.stored or ()} == {2, 5, 6}


@case(
    "E4",
    breaks="engine_operator.domain.collect:previous_good",
    naive=lambda stored, status, count: frozenset(),
)
def test_e4_retention_count_is_exact_once_knative_has_let_go() -> None:
    world = after_builds(1, 2, 3, 4, 5, 6)
    world.revisions = world.revisions[-1:]
    folders(world)
    assert {a.key.revision for a in world.stored or ()} == {5, 6}
    assert folders(world) == []


def test_nothing_is_collected_while_a_newer_revision_is_on_its_way() -> None:
    world = after_builds(1, 2, 3)
    world.revisions = world.revisions[-1:]
    world.wanted = 4
    world.settle()
    assert of_type(world.done, act.CollectArtifacts) == []


def test_partial_upload_is_collected_when_it_is_old() -> None:
    world = after_builds(3)
    world.stored = (artifact(world.key(3), "a1", "a2", manifest="a2"),)
    assert folders(world) == []
    world.passes(hours=25)
    assert folders(world) == [f"{world.key(3)}/a1/"]


def test_previous_revision_without_a_manifest_is_not_a_good_one() -> None:
    world = after_builds(1, 2, 3)
    world.revisions = world.revisions[-1:]
    world.stored = (artifact(world.key(1)), artifact(world.key(2), manifest=None), artifact(world.key(3)))
    assert folders(world) == [f"{world.key(2)}/"]


def test_running_job_keeps_what_it_writes() -> None:
    world = World()
    world.settle()
    assert named(world.observed(), world.status) == {world.key(3)}


def test_orphans_go_after_a_grace_time_unless_something_names_them() -> None:
    keys = [ArtifactKey.of(EngineId(f"{n:024x}"), 1, ConversionOptions()) for n in range(3)]
    stored = [artifact(k) for k in keys]
    engines, still = frozenset({keys[0].engine_id}), frozenset({keys[1]})
    grace = timedelta(hours=24)
    assert collect_orphans(stored, engines, still, START + timedelta(hours=23), grace) == ()
    found = collect_orphans(stored, engines, still, START + timedelta(hours=25), grace)
    assert [a.folders for a in found] == [(f"{keys[2]}/",)]


def test_lost_manifest_of_the_serving_revision_stops_collection() -> None:
    world = after_builds(1, 2, 3)
    world.revisions = world.revisions[-1:]
    world.manifests = {}
    world.stored = tuple(replace(a, has_manifest=False) for a in world.stored or ())
    assert folders(world) == []
