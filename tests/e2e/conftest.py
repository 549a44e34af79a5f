"""One installation for all tests of the tier; each test makes engines of its own and lets them be deleted."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live.models import TINY, archive, noisy_copy
from tests.support.live.world import Options, World
from tests.support.serval import EngineSpec


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for an engine's sleep comes late, when it sleeps; what the operator used can be told at the end."""
    last = ("test_a_node_that_went_while_its_engine_slept", "test_least_privilege.py")
    items.sort(key=lambda item: max((n for n, one in enumerate(last, 1) if one in item.nodeid), default=0))


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """The chart, a Serval stand-in, a store and a ServalSource that follows the stand-in."""
    if not os.environ.get("KUBECONFIG"):
        pytest.fail("these tests run inside the cluster's network: make test-e2e")
    with World(Options()) as made:
        yield made


@pytest.fixture(scope="session")
def first_archive(world: World) -> Path:
    """The trained tiny model as Serval stores it."""
    return archive(TINY, world.scratch / "first.tar.gz")


@pytest.fixture(scope="session")
def second_checkpoint(world: World) -> Path:
    """A checkpoint that translates differently from the first."""
    return noisy_copy(world.scratch / "second", seed=2)


@pytest.fixture(scope="session")
def second_archive(world: World, second_checkpoint: Path) -> Path:
    """The second checkpoint as Serval stores it."""
    return archive(second_checkpoint, world.scratch / "second.tar.gz")


@pytest.fixture
def engine(world: World, request: pytest.FixtureRequest) -> str:
    """Id of a Serval engine that was never built.

    It stays to the end, asleep: an owner who deletes many engines within an hour is asked whether that is meant.
    """
    return world.serval.add_engine(EngineSpec(name=request.node.name, source="en", target="es")).id
