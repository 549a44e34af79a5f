"""What must not matter: an operator that dies, a Serval that is away, files that are late, broken or superseded."""

from pathlib import Path

import pytest

from tests.e2e.test_life_of_an_engine import serves, translate
from tests.support.live.kubectl import condition
from tests.support.live.world import MODELS, World

OPERATOR = "app.kubernetes.io/component=operator"


def kill_operator(world: World) -> None:
    """End the operator's pod without a chance to say goodbye."""
    names = [pod["metadata"]["name"] for pod in world.kubectl.list("pods", OPERATOR)]
    world.kubectl.delete("pods", *names, options=["--grace-period=0", "--force"])


def phase(world: World, name: str) -> str:
    """Where the engine's target is, empty before there is one."""
    target = ((world.engine(name) or {}).get("status", {})).get("target") or {}
    return str(target.get("phase", ""))


@pytest.mark.timeout(600)
def test_an_operator_killed_at_every_step_repeats_nothing_and_finishes(
    world: World, engine: str, first_archive: Path
) -> None:
    name = f"e{engine}"
    world.serval.run_build(engine, first_archive)
    killed_at: list[str] = []

    def serving_after_kills() -> bool:
        now = phase(world, name)
        if now and now not in killed_at and world.serving_revision(name) is None:
            killed_at.append(now)
            kill_operator(world)
        return world.serving_revision(name) == 1

    world.wait("revision 1 despite kills", serving_after_kills, 300, name)
    assert len(killed_at) >= 2, killed_at
    kill_operator(world)
    world.wait("an operator again", lambda: operator_is_ready(world), 60, name)
    assert len(world.kubectl.list("jobs", f"serval-live.dev/engine={name}")) <= 1
    revisions = world.kubectl.list("revisions", f"serving.kserve.io/inferenceservice={name}")
    assert len(revisions) == 1
    assert translate(world, engine, "And the Lord spoke.")[0] == 1


def operator_is_ready(world: World) -> bool:
    """True once a pod of the operator reports ready."""
    pods = world.kubectl.list("pods", OPERATOR)
    return any(condition(pod, "Ready").get("status") == "True" for pod in pods)


@pytest.mark.timeout(400)
def test_a_build_that_finishes_while_serval_is_away_is_served_when_it_is_back(
    world: World, engine: str, first_archive: Path, second_archive: Path
) -> None:
    world.serval.run_build(engine, first_archive)
    serves(world, engine, 1)
    world.serval.down()
    try:
        source = world.wait(
            "the source says that Serval is away",
            lambda: (
                condition(world.kubectl.get("servalsource", "serval"), "Connected").get("status") == "False"
            ),
            120,
        )
        assert source
        assert translate(world, engine, "And he said to them.")[0] == 1
        world.serval.run_build(engine, second_archive)
    finally:
        world.serval.up()
    serves(world, engine, 2)


@pytest.mark.timeout(400)
def test_a_model_that_is_missing_is_named_and_served_once_it_is_there(
    world: World, engine: str, first_archive: Path
) -> None:
    name = f"e{engine}"
    world.serval.run_build(engine, None)
    world.wait(
        "a reason for waiting",
        lambda: "lastFailure" in (world.engine(name) or {}).get("status", {}),
        120,
        name,
    )
    failure = (world.engine(name) or {})["status"]["lastFailure"]
    assert failure["reason"] in {"SourceMissing", "SourceGone"}, failure
    world.s3.upload_file(str(first_archive), MODELS, f"production/models/{engine}_1.tar.gz")
    serves(world, engine, 1, timeout=240)


@pytest.mark.timeout(400)
def test_of_two_builds_close_together_the_newer_one_ends_up_serving(
    world: World, engine: str, first_archive: Path, second_archive: Path
) -> None:
    name = f"e{engine}"
    world.serval.run_build(engine, first_archive)
    world.wait("work on revision 1", lambda: phase(world, name) != "", 60, name)
    world.serval.run_build(engine, second_archive)
    serves(world, engine, 2)
    assert translate(world, engine, "In the beginning.")[0] == 2


@pytest.mark.timeout(400)
def test_a_broken_archive_leaves_the_old_revision_serving_and_says_why(
    world: World, engine: str, first_archive: Path
) -> None:
    name = f"e{engine}"
    world.serval.run_build(engine, first_archive)
    serves(world, engine, 1)
    broken = world.scratch / "broken.tar.gz"
    broken.write_bytes(first_archive.read_bytes()[:200_000])
    world.serval.run_build(engine, broken)
    world.wait(
        "the failure", lambda: "lastFailure" in (world.engine(name) or {}).get("status", {}), 180, name
    )
    engine_object = world.engine(name) or {}
    assert engine_object["status"]["lastFailure"]["revision"] == 2
    assert engine_object["status"]["lastFailure"]["message"]
    assert condition(engine_object, "Available")["status"] == "True"
    assert condition(engine_object, "UpToDate")["status"] == "False"
    assert translate(world, engine, "And it was so.")[0] == 1
