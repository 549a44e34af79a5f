"""From a finished build to a live translation, to sleep, to the next build, to nothing."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.live.caller import Caller, Calls
from tests.support.live.calls import connect
from tests.support.live.models import TINY, references, sentences
from tests.support.live.world import ARTIFACTS, World

BEAM_SIZE = 4


def serves(world: World, engine: str, revision: int, timeout: float = 120) -> None:
    """Wait until the engine's status says that this revision serves."""
    name = f"e{engine}"
    world.wait(
        f"revision {revision} of {name}", lambda: world.serving_revision(name) == revision, timeout, name
    )


def translate(world: World, engine: str, text: str) -> tuple[int, str]:
    """One v2 call from inside the cluster: the revision that answered, and the translation."""

    async def call() -> tuple[int, str]:
        async with connect(world.endpoint(f"e{engine}"), patience=60) as connection:
            answer = await connection.translate(text)
            return answer.revision, answer.translation

    return asyncio.run(call())


@pytest.mark.timeout(900)
def test_a_finished_build_becomes_a_live_translation_and_a_deleted_engine_leaves_nothing(
    world: World, engine: str, first_archive: Path, second_archive: Path, second_checkpoint: Path
) -> None:
    name = f"e{engine}"
    verses = sentences(12)
    expected = {
        1: references(TINY, world.scratch, verses, BEAM_SIZE),
        2: references(second_checkpoint, world.scratch, verses, BEAM_SIZE),
    }
    assert expected[1] != expected[2]

    world.serval.run_build(engine, first_archive)
    serves(world, engine, 1)
    assert translate(world, engine, verses[0]) == (1, expected[1][verses[0]])
    assert world.available(name)["status"] == "True"
    [manifest] = [
        key for key in world.artifacts() if f"{engine}/r1/" in key and key.endswith("manifest.json")
    ]
    kept = json.loads(world.s3.get_object(Bucket=ARTIFACTS, Key=manifest)["Body"].read())
    assert kept["engineId"] == engine
    assert kept["modelRevision"] == 1
    assert kept["selfTest"]["passed"] is True

    world.wait("scale to zero", lambda: not world.pods(name), 240, name)
    assert world.available(name)["status"] == "True"
    assert translate(world, engine, verses[1]) == (1, expected[1][verses[1]])

    calls = asyncio.run(roll_out_under_calls(world, engine, second_archive, expected))
    assert calls.failures == []
    assert calls.by_revision.keys() == {1, 2}

    world.serval.delete_engine(engine)
    world.wait("nothing left", lambda: not world.leftovers(name), 240, name)


async def roll_out_under_calls(
    world: World, engine: str, second: Path, expected: dict[int, dict[str, str]]
) -> Calls:
    """Finish a second build while a caller never stops; returns what the caller saw."""
    caller = Caller(world.endpoint(f"e{engine}"), list(expected[1]), expected)
    caller.start()
    await asyncio.to_thread(world.serval.run_build, engine, second)
    await asyncio.to_thread(serves, world, engine, 2)
    await caller.until_all_saw(2)
    return await caller.stop()
