"""The virtual environment that has torch, and the Debian packages that have the texts.

Why it exists: torch weighs gigabytes and is needed to make the model, never to use it. The environment lies in the
cache under a name made of its requirements, so a changed pin makes a fresh one.
What it refuses to do: touch the environment that it runs in.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tinymodel.errors import SourceTextMissing, StepFailed
from tinymodel.settings import Corpus, cache_dir
from tinymodel.sword import SWORD_FOLDER

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = PACKAGE_ROOT / "requirements-train.txt"


def training_folder() -> Path:
    """Where the training environment lies; the name changes with its requirements."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return cache_dir() / f"train-venv-{digest}"


def training_python() -> Path:
    """The interpreter of the training environment, made on first use (some minutes)."""
    folder = training_folder()
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        print(f"training environment in {folder}: torch is large, some minutes", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
        _run([str(python), *install])
        ready.touch()
    return python


def ensure_texts(corpus: Corpus) -> None:
    """Install the two texts where apt and the right to use it exist; else say what is missing."""
    installed = {path.stem for path in (SWORD_FOLDER / "mods.d").glob("*.conf")}
    wanted = {corpus.english_module: corpus.english_package, corpus.spanish_module: corpus.spanish_package}
    missing = [package for module, package in wanted.items() if module not in installed]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SourceTextMissing(f"SWORD texts are missing: as root, apt-get install {' '.join(missing)}")
    print(f"installing {', '.join(missing)}", flush=True)
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing])


def run_step(python: Path, step: Sequence[str]) -> None:
    """Run `python -m tinymodel STEP` in the training environment. Raises StepFailed."""
    threads = str(os.cpu_count() or 1)
    # Waiting threads give their core away: the machine may have other work.
    environment = os.environ | {
        "PYTHONPATH": str(PACKAGE_ROOT),
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "true",
    }
    environment.setdefault("OMP_NUM_THREADS", threads)
    _run([str(python), "-m", "tinymodel", *step], environment)


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    ended = subprocess.run(command, env=environment, check=False)
    if ended.returncode:
        raise StepFailed(f"{' '.join(command)} ended with {ended.returncode}")
