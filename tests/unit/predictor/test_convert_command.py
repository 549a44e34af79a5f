"""Arguments, destinations, disks and signals of the command: each refusal by name, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nllb_predictor import cli, errors
from tests.support.checkpoints import (
    CODES,
    Recipe,
    make_checkpoint,
    make_tokenizer,
    pack_archive,
    weights,
    write_safetensors,
)
from tests.support.conversion import files
from tests.support.refusals import cut_weights, edit_json, refused
from tests.support.waiting import eventually_sync

ROOT = Path(__file__).parents[3]
ROWS = make_tokenizer(CODES).get_vocab_size() + 2

pytestmark = pytest.mark.usefixtures("own_process_settings")


def test_an_asked_language_must_be_in_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    languages = ("--source-language", "eng_Latn", "--target-language", "deu_Latn")
    arguments = (str(folder), str(tmp_path / "model"), *languages)
    assert "'deu_Latn'" in refused(tmp_path, capsys, errors.LanguageNotInModel, *arguments)


def test_arguments_settle_a_disagreement_of_the_files(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    edit_json(folder / "tokenizer_config.json", tgt_lang="fra_Latn")
    languages = ["--source-language", "eng_Latn", "--target-language", "fra_Latn"]
    assert cli.main(["convert", str(folder), str(tmp_path / "model"), *languages]) == 0
    assert json.loads((tmp_path / "model/manifest.json").read_bytes())["languages"]["target"] == "fra_Latn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine-id", "e1"), "belong together"),
        (("--engine-id", "e1", "--revision", "3", "--artifact-key", "e2/r3/ct2v1-00000000"), "e1/r3/ct2v1-"),
        (("--attempt", "a1"), "plain folder"),
        (("--source-language", "eng_Latn"), "or neither"),
    ],
)
def test_arguments_that_cannot_be_meant_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    assert message in refused(
        tmp_path, capsys, errors.UsageError, str(folder), str(tmp_path / "model"), *arguments
    )


def test_an_existing_destination_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/precious").write_text("x")
    arguments = (str(folder), str(tmp_path / "there"))
    assert "--force" in refused(tmp_path, capsys, errors.DestinationInUse, *arguments)
    assert files(tmp_path / "there") == {"precious"}


def test_force_replaces_a_destination_as_a_whole(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/old").write_text("x")
    assert cli.main(["convert", str(folder), str(tmp_path / "there"), "--force"]) == 0
    assert "old" not in files(tmp_path / "there")
    assert {"model.bin", "manifest.json"} <= files(tmp_path / "there")
    assert not list(tmp_path.glob(".*.partial"))


def test_a_failed_conversion_leaves_a_forced_destination_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    cut_weights(folder)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/old").write_text("x")
    refused(tmp_path, capsys, errors.BrokenCheckpoint, str(folder), str(tmp_path / "there"), "--force")
    assert files(tmp_path / "there") == {"old"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_too_small_is_found_before_the_work(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(Recipe(), width=64))
    message = refused(
        tmp_path, capsys, errors.NoSpace, str(folder), str(small_disk / "model"), "--quantization", "float32"
    )
    assert "needs" in message
    assert "free" in message
    assert not any(small_disk.iterdir())


def test_a_disk_that_fills_up_is_told_and_left_clean(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is small, what it unpacks to is not, and only the disk knows."""
    folder = make_checkpoint(tmp_path / "checkpoint")
    rows = {name: np.zeros_like(tensor) for name, tensor in weights(Recipe(), ROWS).items()}
    write_safetensors(folder / "model.safetensors", {**rows, "padding": np.zeros((1000, 256), np.float32)})
    archive = pack_archive(tmp_path / "a.tar.gz", folder)
    assert archive.stat().st_size < 100_000
    monkeypatch.setenv("SERVAL_LIVE_CACHE_DIR", str(small_disk))
    assert "full" in refused(tmp_path, capsys, errors.NoSpace, str(archive))
    assert not any(small_disk.iterdir())


def test_a_source_url_must_be_in_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "SERVAL_LIVE_SOURCE_URL" in refused(tmp_path, capsys, errors.UsageError, "-")


def test_an_unforeseen_error_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file name has a zero byte; nobody foresaw that one is asked for, and Python raises its own ValueError."""
    folder = make_checkpoint(tmp_path / "checkpoint")
    message = refused(tmp_path, capsys, errors.PredictorError, str(folder), f"{tmp_path}/mo\0del")
    assert message.startswith("ValueError")


def test_a_cache_folder_that_cannot_be_is_told_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVAL_LIVE_CACHE_DIR", "/dev/null/cache")
    folder = make_checkpoint(tmp_path / "checkpoint")
    assert "/dev/null/cache" in refused(tmp_path, capsys, errors.DestinationInUse, str(folder))


@pytest.mark.parametrize(
    ("kill", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_ended_conversion_leaves_nothing_that_the_next_does_not_remove(
    tmp_path: Path, kill: signal.Signals, code: int
) -> None:
    """The process is stopped while it waits for the rest of its archive."""
    archive = pack_archive(tmp_path / "whole.tar.gz", make_checkpoint(tmp_path / "checkpoint"))
    hold = _StuckServer(archive.read_bytes())
    paths = [str(ROOT / "predictor"), str(ROOT / "contract")]
    environment = {**os.environ, "SERVAL_LIVE_SOURCE_URL": hold.url, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "nllb_predictor", "convert", "-", str(tmp_path / "model")]
    with hold, subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        eventually_sync(lambda: list((tmp_path / "cache").glob(".nllb-convert.*.partial")), timeout=60)
        process.send_signal(kill)
        assert process.wait(60) == code
    assert not (tmp_path / "model").exists()
    assert cli.main(["convert", str(archive), str(tmp_path / "model")]) == 0
    assert not list(tmp_path.glob("**/.*.partial"))


class _StuckServer:
    """Sends half of a body and then nothing, until it is closed."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = (
            f"http://127.0.0.1:{self._socket.getsockname()[1]}/models/e1_1.tar.gz?X-Amz-Signature=secret"
        )
        self._held: list[Any] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._held.append(connection)
            connection.recv(65536)
            head = f'HTTP/1.1 200 OK\r\nContent-Length: {len(self._body)}\r\nETag: "x"\r\n\r\n'.encode()
            connection.sendall(head + self._body[: len(self._body) // 2])

    def __enter__(self) -> "_StuckServer":
        return self

    def __exit__(self, *args: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        for connection in self._held:
            connection.close()


def test_reasons_and_exit_codes_are_different_and_documented() -> None:
    """The table of the documentation is the one of the code."""
    found = [error for error in _family(errors.PredictorError) if "reason" in vars(error)]
    commands = [
        error
        for error in found
        if issubclass(error, errors.ConversionError | errors.StoreError | errors.FetchError)
    ]
    reasons, codes = [error.reason for error in commands], [error.exit_code for error in commands]
    assert len(set(reasons)) == len(reasons)
    assert len(set(codes)) == len(codes)
    page = (ROOT / "docs/conversion.md").read_text(encoding="utf-8")
    rows = dict(
        line.strip("| ").split(" | ")[:2]
        for line in page.splitlines()
        if line.startswith("| ") and line[2].isdigit()
    )
    expected = {
        str(error.exit_code): f"`{error.reason}`"
        for error in (*commands, errors.UsageError, errors.PredictorError)
    }
    assert rows == expected


def _family(kind: type[errors.PredictorError]) -> Iterator[type[errors.PredictorError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)
