"""Each protocol once through the whole cluster: ingress, activator, queue-proxy, predictor."""

import asyncio
from pathlib import Path

import pytest

from tests.support.live.calls import RestConnection, connect
from tests.support.live.models import TINY, references, sentences
from tests.support.live.world import NAMESPACE, SOURCE, World

VERSES = 3


@pytest.mark.timeout(400)
@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_an_engine_that_a_person_made_answers_over_its_protocol(
    world: World, engine: str, first_archive: Path, protocol: str
) -> None:
    name = f"by-{protocol}"
    world.kubectl.apply(
        {
            "apiVersion": "serval-live.dev/v1alpha1",
            "kind": "TranslationEngine",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "source": {"servalSource": SOURCE, "engineId": engine},
                "serving": {"protocol": protocol},
            },
        }
    )
    try:
        world.serval.run_build(engine, first_archive)
        world.wait("revision 1", lambda: world.serving_revision(name) == 1, 120, name)
        assert world.engine(f"e{engine}") is None, "the engine that a person made is the only one"
        endpoint = world.endpoint(name)
        assert endpoint.protocol == protocol
        verses = sentences(VERSES)
        expected = references(TINY, world.scratch, verses, beam_size=4)

        async def call() -> dict[str, str]:
            async with connect(endpoint, patience=60) as connection:
                if isinstance(connection, RestConnection):
                    assert await connection.predict(verses[0]) == expected[verses[0]]
                return {verse: (await connection.translate(verse)).translation for verse in verses}

        assert asyncio.run(call()) == expected
    finally:
        world.kubectl.delete("translationengine", name)
