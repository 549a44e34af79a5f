"""What tests of the command `nllb-predictor convert` share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def own_process_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The command sets a signal handler and reads the environment; neither may outlive a test."""
    for name in [name for name in os.environ if name.startswith(("SERVAL_LIVE_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SERVAL_LIVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVAL_LIVE_TERMINATION_LOG", str(tmp_path / "termination"))
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
