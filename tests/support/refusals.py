"""Expect a refusal of `nllb-predictor convert`, and the ways to spoil a checkpoint that several tests share."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nllb_predictor import cli, errors
from serval_live_contract import schema


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


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(folder)))


class _Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.folder / "pickle-was-loaded",))
