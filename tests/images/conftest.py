"""The images of this tree, built if they are not there yet."""

from collections.abc import Iterator

import pytest

from devcluster import images
from tests.support.box import Box


def built(target: str) -> str:
    """Name of an image of this tree."""
    name = images.tag_for(target)
    images.build(images.BuildRequest(target, name))
    return name


@pytest.fixture(scope="session")
def predictor_image() -> str:
    return built("predictor")


@pytest.fixture(scope="session")
def operator_image() -> str:
    return built("operator")


@pytest.fixture(scope="session")
def gpu_image() -> str:
    return built("predictor-gpu")


@pytest.fixture(scope="session")
def predictor(predictor_image: str) -> Iterator[Box]:
    with Box(predictor_image) as box:
        yield box


@pytest.fixture(scope="session")
def operator(operator_image: str) -> Iterator[Box]:
    with Box(operator_image) as box:
        yield box


@pytest.fixture(scope="session")
def gpu(gpu_image: str) -> Iterator[Box]:
    with Box(gpu_image) as box:
        yield box
