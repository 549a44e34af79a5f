"""The one model that every 600M-shaped benchmark uses: the trained tiny checkpoint, widened, output preserved.

Random weights would never emit an end of sentence, so every length would be the same. Kept in the cache outside the
checkout, keyed by the tiny checkpoint's and the widening script's content.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from benchmarks.report import ROOT
from tinymodel.settings import cache_dir
from tinymodel.widened import cached

TINY = ROOT / "tests" / "data" / "tiny-nllb"


def cache() -> Path:
    """The benchmarks' folder in the project's cache, outside the checkout."""
    folder = cache_dir() / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _key(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def widened() -> Path:
    """Folder of the widened checkpoint (float32, about 2.4 GB); made on first use, in about a minute."""
    return cached(TINY, cache_dir())


def weight_bytes(folder: Path) -> int:
    """Bytes of a checkpoint's weights."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def warm(folder: Path) -> None:
    """Read every file once, so that no run pays for the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass


def converted(quantization: str) -> Path:
    """The widened model converted by us, as this tree converts; made on first use."""
    source = widened()
    package = ROOT / "predictor" / "nllb_predictor"
    sources = [*sorted((package / "convert").glob("*.py")), package / "probes.py"]
    target = cache() / f"{source.name}-{quantization}-{_key(*sources)}"
    if not (target / "manifest.json").exists():
        subprocess.run(
            [
                sys.executable,
                "-m",
                "nllb_predictor",
                "convert",
                str(source),
                str(target),
                "--quantization",
                quantization,
            ],
            cwd=ROOT,
            check=True,
        )
    return target
