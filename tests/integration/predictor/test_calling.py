"""The page of examples, run: every curl, Python and grpcurl block against a served model, in order."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.support.predictor import ROOT, Predictor

PAGE = ROOT / "docs" / "calling.md"
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(bash|python|grpcurl)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCKS if found == kind]


@pytest.fixture
def environment(any_pair_predictor: Predictor, tmp_path: Path) -> dict[str, str]:
    """What the page tells to export, and the command on the path."""
    command = tmp_path / "bin" / "nllb-predictor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m nllb_predictor "$@"\n')
    command.chmod(0o755)
    return {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("predictor", "contract")),
        "URL": any_pair_predictor.url,
        "GRPC": any_pair_predictor.grpc_address,
        "MODEL": any_pair_predictor.name,
    }


def test_the_page_has_examples_of_every_kind() -> None:
    assert min(len(blocks(kind)) for kind in ("bash", "python", "grpcurl")) >= 2
    words = PAGE.read_text(encoding="utf-8")
    for feature in (
        "target_prefix",
        "protected_terms",
        "num_hypotheses",
        "translation_result",
        "deterministic",
    ):
        assert feature in words


@pytest.mark.parametrize("number", range(len(blocks("bash"))))
def test_every_shell_block_succeeds(number: int, environment: dict[str, str]) -> None:
    script = "set -euo pipefail\n" + blocks("bash")[number]
    ended = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.strip()


def test_the_python_blocks_run_as_one_program(environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks("python")), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert any("Y nad" in line for line in lines)
    assert any("Ruth" in line and "{name}" in line for line in lines)


@pytest.mark.parametrize(
    "line", [line for body in blocks("grpcurl") for line in body.splitlines() if line.startswith("grpcurl ")]
)
def test_every_grpcurl_line_means_a_call_that_reflection_can_make(
    line: str, environment: dict[str, str]
) -> None:
    """What grpcurl does: ask reflection for the method, make the request of its JSON form, call."""
    for name in ("MODEL", "GRPC"):
        line = line.replace(f"${name}", environment[name])
    words = shlex.split(line)
    assert words[:2] == ["grpcurl", "-plaintext"]
    body = words[words.index("-d") + 1] if "-d" in words else "{}"
    answer = reflected(words[-2], words[-1], body)
    assert answer
    assert answer.get("ready", True)


def reflected(address: str, method: str, body: str) -> dict[str, Any]:
    """One unary call by nothing but its name."""
    service, _, name = method.partition("/")
    with grpc.insecure_channel(address) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        described = pool.FindServiceByName(service).FindMethodByName(name)
        request = json_format.ParseDict(
            json.loads(body), message_factory.GetMessageClass(described.input_type)(), descriptor_pool=pool
        )
        call = channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
        )
        answer: dict[str, Any] = json_format.MessageToDict(call(request, timeout=60), descriptor_pool=pool)
        return answer
