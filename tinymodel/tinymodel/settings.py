"""Every number of the tiny model in one place, and where its files lie.

Each field says meaning, unit, default and why. Nothing here is read from the environment but the cache folder
(`SERVAL_LIVE_CACHE`, else `XDG_CACHE_HOME/serval-live`, else `~/.cache/serval-live`).
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TEST_DATA = REPOSITORY / "tests" / "data"


def cache_dir() -> Path:
    """The folder for everything that can be made again."""
    if named := os.environ.get("SERVAL_LIVE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "serval-live"


@dataclass(frozen=True, slots=True)
class Languages:
    """The two sides of the corpus, as NLLB codes."""

    source: str = "eng_Latn"
    target: str = "spa_Latn"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Which texts, and which of their books the model never sees."""

    english_module: str = "engWEB2015eb"
    english_package: str = "sword-text-web"
    spanish_module: str = "spaRV1909eb"
    spanish_package: str = "sword-text-sparv"
    # Whole books, not single verses: neighbours quote each other. Two stories, three letters, 203 verses in all.
    held_out: tuple[str, ...] = ("Ruth", "Jonah", "2Thess", "2John", "3John")


@dataclass(frozen=True, slots=True)
class Shape:
    """The architecture: NLLB's, small.

    Eight heads of 16: four copies of such a head fill one head of the 600M shape (16 heads of 64), and the correction
    of the softmax scale is then exactly one half. Two embedding rows more than tokens, as the NLLB checkpoints have.
    """

    width: int = 128
    layers: int = 3
    heads: int = 8
    ffn: int = 512
    tokens: int = 4000
    spare_rows: int = 2
    max_positions: int = 1024


@dataclass(frozen=True, slots=True)
class Recipe:
    """The training run. Fixed steps and a seed, no wall clock: the same command gives the same kind of model."""

    seed: int = 20
    steps: int = 2400
    # Target pieces in one batch, padding included.
    batch_pieces: int = 3072
    # Longer verses are left out of training on both sides: they are few, and one of them pays for ten others.
    max_pieces: int = 72
    peak_rate: float = 3e-3
    # Muon's rate for the matrices of the layers, in AdamW's measure.
    matrix_rate: float = 5e-3
    warmup_steps: int = 120
    # Few passes over the corpus: the model never has time to learn it by heart.
    dropout: float = 0.0
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    # Steps between two saved states; a stopped run goes on from the last one.
    save_every: int = 100
    # The target on the held-out books, each way (chrF, sacreBLEU's default).
    min_chrf: float = 35.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where the steps find and leave their files."""

    work: Path = field(default_factory=lambda: cache_dir() / "tinymodel")
    data: Path = TEST_DATA

    @property
    def verses(self) -> Path:
        return self.work / "verses.jsonl"

    @property
    def pairs(self) -> Path:
        return self.work / "train.jsonl"

    @property
    def training_state(self) -> Path:
        return self.work / "training.pt"

    @property
    def held_out(self) -> Path:
        return self.data / "heldout.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.data / "tiny-nllb"

    @property
    def references(self) -> Path:
        return self.data / "references"
