"""Each way in which a conversion fails has its own reason, exit code and message, and leaves nothing behind."""

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from nllb_predictor import cli, errors
from serval_live_contract import schema
from tests.support.archives import member, write_archive
from tests.support.cases import case
from tests.support.checkpoints import (
    CODES,
    Recipe,
    make_checkpoint,
    make_tokenizer,
    pack_archive,
    weights,
    write_safetensors,
    write_weights,
)
from tests.support.conversion import convert_to, files
from tests.support.waiting import eventually_sync

ROOT = Path(__file__).parents[3]
ROWS = make_tokenizer(CODES).get_vocab_size() + 2
Change = Callable[[Path], object]


@pytest.fixture(autouse=True)
def own_process_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The command sets a signal handler and reads the environment; neither may outlive a test."""
    for name in [name for name in os.environ if name.startswith(("SERVAL_LIVE_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SERVAL_LIVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVAL_LIVE_TERMINATION_LOG", str(tmp_path / "termination"))
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: type[errors.PredictorError], *arguments: str
) -> str:
    """Run the command, expect this error everywhere where it has to show, and nothing left; returns the message."""
    target = tmp_path / "model"
    code = cli.main(["convert", *arguments, str(target)] if len(arguments) == 1 else ["convert", *arguments])
    shown = capsys.readouterr().err.strip().splitlines()[-1]
    line = json.loads((tmp_path / "termination").read_text())
    Draft202012Validator(schema("termination")).validate(line)
    assert code == error.exit_code
    assert shown == f"nllb-predictor: {error.reason}: {line['message']}"
    assert line["reason"] == error.reason
    assert not target.exists()
    assert not list(tmp_path.rglob("*.partial"))
    return str(line["message"])


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def configure(**changes: Any) -> Change:
    return lambda folder: edit_json(folder / "config.json", **changes)


def rewrite(change: Callable[[dict[str, Any]], object]) -> Change:
    def spoil(folder: Path) -> None:
        tensors = weights(Recipe(), ROWS)
        change(tensors)
        write_weights(folder, tensors)

    return spoil


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(folder)))


class _Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.folder / "pickle-was-loaded",))


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def other_copy(tensors: dict[str, Any]) -> None:
    changed = tensors["model.shared.weight"].copy()
    changed[17, 3] += 1
    tensors["lm_head.weight"] = changed


def one_token_twice(folder: Path) -> None:
    document = json.loads((folder / "tokenizer.json").read_bytes())
    document["added_tokens"].append({**document["added_tokens"][-1], "content": "xyz_Latn"})
    (folder / "tokenizer.json").write_text(json.dumps(document))


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


FOLDERS: list[tuple[str, Change, type[errors.PredictorError], str]] = [
    ("no config", remove("config.json"), errors.MissingFile, "has no config.json"),
    ("no tokenizer", remove("tokenizer.json"), errors.MissingFile, "has no tokenizer.json"),
    ("no weights", remove("model.safetensors"), errors.MissingFile, "neither model.safetensors nor"),
    ("only pickle", pickled, errors.PickleOnly, "pytorch_model.bin"),
    ("config no JSON", text("config.json", "{"), errors.BrokenConfig, "config.json is not JSON"),
    ("config a list", text("config.json", "[]"), errors.BrokenConfig, "config.json does not hold"),
    (
        "tokenizer no JSON",
        text("tokenizer.json", "<html>"),
        errors.BrokenConfig,
        "tokenizer.json is not JSON",
    ),
    ("no width", configure(d_model=None), errors.BrokenConfig, "d_model"),
    ("odd heads", configure(encoder_attention_heads=5), errors.BrokenConfig, "5 attention heads"),
    ("other model", configure(model_type="marian"), errors.UnsupportedArchitecture, "'marian'"),
    ("no model type", configure(model_type=None), errors.UnsupportedArchitecture, "m2m_100"),
    ("other activation", configure(activation_function="gelu"), errors.UnsupportedArchitecture, "'gelu'"),
    ("quantized", configure(quantization_config={"bits": 4}), errors.UnsupportedArchitecture, "quantized"),
    ("cut weights", cut_weights, errors.BrokenCheckpoint, "model.safetensors is damaged"),
    (
        "no embedding",
        rewrite(lambda t: t.pop("model.shared.weight")),
        errors.BrokenCheckpoint,
        "no embedding",
    ),
    (
        "a tensor missing",
        rewrite(lambda t: t.pop("model.decoder.layers.1.encoder_attn.k_proj.weight")),
        errors.BrokenCheckpoint,
        "decoder.layers.1.encoder_attn.k_proj.weight",
    ),
    (
        "a bias missing",
        rewrite(lambda t: t.pop("model.encoder.layers.2.fc1.bias")),
        errors.BrokenCheckpoint,
        "encoder.layers.2.fc1.bias",
    ),
    (
        "a tensor of another shape",
        rewrite(
            lambda t: t.update(
                {"model.encoder.layers.0.self_attn.q_proj.weight": np.ones((3, 32), np.float32)}
            )
        ),
        errors.BrokenCheckpoint,
        r"q_proj.weight has shape \[3, 32\], expected \[32, 32\]",
    ),
    (
        "not a number",
        rewrite(lambda t: t["model.decoder.layers.0.fc2.weight"].fill(np.nan)),
        errors.BrokenCheckpoint,
        "decoder.layers.0.fc2",
    ),
    ("tied copies differ", rewrite(other_copy), errors.BrokenCheckpoint, "should be tied but differ"),
    ("an id twice", one_token_twice, errors.VocabularyMismatch, "'<mask>' and to 'xyz_Latn'"),
    ("other eos", configure(eos_token_id=7), errors.VocabularyMismatch, "eos_token_id 7"),
    (
        "languages disagree",
        lambda folder: edit_json(folder / "tokenizer_config.json", tgt_lang="fra_Latn"),
        errors.LanguagesDisagree,
        "fra_Latn.*spa_Latn",
    ),
    (
        "language without token",
        lambda folder: edit_json(folder / "tokenizer_config.json", src_lang="deu_Latn"),
        errors.LanguageNotInModel,
        "'deu_Latn'",
    ),
    (
        "forced token no language",
        lambda folder: edit_json(folder / "generation_config.json", forced_bos_token_id=9),
        errors.LanguagesDisagree,
        "no language code",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "error", "message"), [row[1:] for row in FOLDERS], ids=[row[0] for row in FOLDERS]
)
def test_a_spoiled_checkpoint_is_refused_with_its_reason(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Change,
    error: type[errors.PredictorError],
    message: str,
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    spoil(folder)
    found = refused(tmp_path, capsys, error, str(folder))
    assert re.search(message, found), found
    assert not (folder / "pickle-was-loaded").exists()


@case(
    "p34",
    breaks="nllb_predictor.convert.vocabulary:Vocabulary.for_rows",
    naive=lambda self, rows: list(self.tokens),
)
def test_p34_a_token_without_a_row_is_named_with_both_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(
        tmp_path / "checkpoint", replace(Recipe(), codes=(*CODES, "xyz_Latn"), extra_rows=-1)
    )
    tokens = make_tokenizer((*CODES, "xyz_Latn")).get_vocab_size()
    message = refused(tmp_path, capsys, errors.VocabularyMismatch, str(folder))
    assert f"{tokens} tokens" in message
    assert f"{tokens - 1} rows" in message
    assert "'<mask>'" in message


def test_a_missing_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(Recipe(), shards=2))
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors" in refused(tmp_path, capsys, errors.MissingFile, str(folder))


def test_an_index_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint", replace(Recipe(), shards=2))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "../../secret.safetensors"}})
    )
    assert "../../secret" in refused(tmp_path, capsys, errors.BrokenConfig, str(folder))


def test_integers_are_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"F32"', b'"I32"'))
    assert "I32" in refused(tmp_path, capsys, errors.BrokenCheckpoint, str(folder))


def test_nothing_at_the_source_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path / "none") in refused(tmp_path, capsys, errors.SourceMissing, str(tmp_path / "none"))


def test_a_broken_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = pack_archive(tmp_path / "a.tar.gz", make_checkpoint(tmp_path / "checkpoint"))
    archive.write_bytes(archive.read_bytes()[:5000])
    assert "a.tar.gz" in refused(tmp_path, capsys, errors.BrokenArchive, str(archive))


def test_an_archive_of_no_bytes_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"")
    message = refused(tmp_path, capsys, errors.BrokenArchive, str(tmp_path / "a.tar.gz"))
    assert "a.tar.gz" in message
    assert "0 bytes" in message


def test_an_unsafe_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [member("../config.json", b"{}")])
    assert "../config.json" in refused(tmp_path, capsys, errors.UnsafeArchive, str(archive))
    assert not (tmp_path / "config.json").exists()


def test_pickles_in_an_archive_are_refused_and_never_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    pickled(folder)
    archive = pack_archive(tmp_path / "a.tar.gz", folder)
    assert "pytorch_model.bin" in refused(tmp_path, capsys, errors.PickleOnly, str(archive))
    assert not (folder / "pickle-was-loaded").exists()


def test_an_archive_without_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "checkpoint")
    (folder / "model.safetensors").unlink()
    archive = pack_archive(tmp_path / "a.tar.gz", folder)
    assert "model.safetensors" in refused(tmp_path, capsys, errors.MissingFile, str(archive))


def test_an_empty_archive_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    message = refused(tmp_path, capsys, errors.EmptyArchive, str(archive))
    assert "e1_1.tar.gz" in message
    assert "--base" in message


def test_an_empty_archive_becomes_its_base_with_the_pair_that_is_given(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", replace(Recipe(), pair=(None, None)))
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    languages = ["--source-language", "fra_Latn", "--target-language", "eng_Latn"]
    assert cli.main(["convert", str(archive), str(tmp_path / "model"), "--base", str(base), *languages]) == 0
    manifest = json.loads((tmp_path / "model/manifest.json").read_bytes())
    convert_to(base, tmp_path / "from-base")
    assert (manifest["languages"]["source"], manifest["languages"]["target"]) == ("fra_Latn", "eng_Latn")
    assert manifest["languages"]["from"] == "arguments"
    assert manifest["selfTest"]["probes"][0]["source"] == "fra_Latn"


def test_an_empty_archive_with_a_base_needs_its_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = make_checkpoint(tmp_path / "base", replace(Recipe(), pair=(None, None)))
    archive = write_archive(tmp_path / "e1_1.tar.gz", [])
    arguments = (str(archive), str(tmp_path / "model"), "--base", str(base))
    assert "--source-language" in refused(tmp_path, capsys, errors.UsageError, *arguments)


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


def test_an_unforeseen_error_is_told_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVAL_LIVE_CACHE_DIR", "/dev/null/cache")
    folder = make_checkpoint(tmp_path / "checkpoint")
    refused(tmp_path, capsys, errors.DestinationInUse, str(folder))


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
