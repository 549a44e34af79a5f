"""Interpreters for libraries that cannot live beside the project's own: made once, kept outside of the checkout."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tinymodel.settings import cache_dir


def python_with(requirements: Path, name: str) -> Path:
    """An interpreter that has what a requirements file lists. Made on first use, named by the file's content.

    Raises CalledProcessError where pip fails; what it left is made anew the next time.
    """
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"{name}-venv-{digest}"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]
        subprocess.run([*install, str(requirements)], check=True)
        (folder / ".ready").touch()
    return python
