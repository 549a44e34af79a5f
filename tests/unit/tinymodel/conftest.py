"""A small random checkpoint of NLLB's architecture: shapes and names are real, the numbers are noise."""

from pathlib import Path

import numpy as np
import pytest

from tests.unit.tinymodel.support import LANGUAGES, SHAPE, TEXTS, random_tensors
from tinymodel.checkpoint import write_checkpoint
from tinymodel.vocabulary import train_tokenizer, write_tokenizer


@pytest.fixture(scope="session")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint's folder."""
    folder = tmp_path_factory.mktemp("noise")
    tree = train_tokenizer(TEXTS, SHAPE)
    write_tokenizer(folder, tree, LANGUAGES, SHAPE.max_positions)
    write_checkpoint(folder, SHAPE, LANGUAGES, tree, random_tensors(SHAPE, np.random.default_rng(3)))
    return folder
