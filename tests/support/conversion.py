"""Short ways to convert in tests, and to look at what a conversion wrote."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.manifest import Options, Quantization
from nllb_predictor.convert.run import Converted, Request, Surroundings, convert
from nllb_predictor.convert.selftest import Subject
from nllb_predictor.convert.vocabulary import read_vocabulary, special_facts

NOW = datetime.datetime(2026, 11, 30, 18, 0, tzinfo=datetime.UTC)


def surroundings(work_dir: Path) -> Surroundings:
    """A work folder of the test's own and a clock that stands."""
    return Surroundings(work_dir=work_dir, now=lambda: NOW)


def convert_to(source: Path, target: Path, quantization: Quantization = Quantization.FLOAT32) -> Converted:
    """Convert a checkpoint folder or archive into `target`, with the self-test."""
    request = Request(str(source), str(target), Options(quantization))
    return convert(request, surroundings(target.parent / "work"))


def subject(checkpoint: Path, model: Path, quantization: Quantization) -> Subject:
    """A written model beside its checkpoint, for the self-test alone."""
    vocabulary = read_vocabulary(checkpoint)
    facts = special_facts(checkpoint, vocabulary, (None, None))
    return Subject(Checkpoint(checkpoint), vocabulary, facts, quantization, model)


@dataclass(frozen=True)
class Variables:
    """The variables of a `model.bin`, aliases resolved, as plain arrays."""

    folder: Path

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        return ModelFile(self.folder / "model.bin").stored(name).data

    def names(self) -> set[str]:
        file = ModelFile(self.folder / "model.bin")
        return {*file.variables, *file.aliases}


def files(folder: Path) -> set[str]:
    """Names of everything in a folder, hidden or not."""
    return {path.name for path in folder.iterdir()}
