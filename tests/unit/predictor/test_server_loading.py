"""Weights are hashed while they are opened: both must end well, and a wrong digest is the reason that is told."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from nllb_predictor import errors
from nllb_predictor.convert.manifest import FileEntry, Sha256
from nllb_predictor.server.lifecycle import Lifecycle, PhaseName
from nllb_predictor.server.loading import checked_beside
from nllb_predictor.store.models import LocalModel
from nllb_predictor.store.transfer import file_sha256


def model(folder: Path, content: bytes, promised: str | None = None) -> LocalModel:
    path = folder / "model.bin"
    path.write_bytes(content)
    digest = Sha256(promised or file_sha256(path))
    return LocalModel(folder, None, None, (FileEntry("model.bin", len(content), digest),))


@dataclass
class SlowCheck:
    """A model whose check lasts until it is let go."""

    go_on: threading.Event = field(default_factory=threading.Event)
    checked: bool = False

    def check(self) -> None:
        assert self.go_on.wait(30)
        self.checked = True


def test_the_check_runs_beside_the_block_and_has_ended_after_it() -> None:
    slow = SlowCheck()
    with checked_beside(cast("Any", slow)):
        # Were the check not beside this block, nothing would ever let it go.
        slow.go_on.set()
    assert slow.checked


def test_weights_with_another_digest_are_refused_although_they_could_be_opened(tmp_path: Path) -> None:
    opened = False
    with pytest.raises(errors.ChecksumMismatch, match="0" * 64):  # noqa: SIM117  the order matters here
        with checked_beside(model(tmp_path, b"weights", "0" * 64)):
            opened = True
    assert opened


def test_damage_that_also_breaks_the_opening_is_told_as_a_wrong_digest(tmp_path: Path) -> None:
    with pytest.raises(errors.ChecksumMismatch), checked_beside(model(tmp_path, b"weights", "0" * 64)):
        raise errors.ModelUnloadable("no such variable")


def test_a_failure_with_sound_weights_keeps_its_reason(tmp_path: Path) -> None:
    with pytest.raises(errors.ModelUnloadable, match="no such"), checked_beside(model(tmp_path, b"weights")):
        raise errors.ModelUnloadable("no such variable")


def test_the_digest_of_an_empty_file_is_that_of_no_bytes(tmp_path: Path) -> None:
    """SHA-256 of nothing, from FIPS 180-4's examples."""
    (tmp_path / "empty").touch()
    assert file_sha256(tmp_path / "empty") == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


def test_loading_can_wait_for_the_ports_and_does_not_wait_for_ever() -> None:
    lifecycle = Lifecycle()
    assert not lifecycle.wait_listening(0.01)
    lifecycle.since_start(PhaseName.PYTHON)
    assert lifecycle.wait_listening(0)
