"""The page of examples, run: every curl, Python and grpcurl block against a served model, in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import host_packages
from devcluster.programs import Programs
from tests.support.predictor import ROOT, Predictor

PAGE = ROOT / "docs" / "calling.md"
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(bash|python|grpcurl)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCKS if found == kind]


@pytest.fixture
def environment(any_pair_predictor: Predictor, tmp_path: Path) -> dict[str, str]:
    """What the page tells to export, and the commands on the path."""
    host_packages.ensure("curl")
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
    for kind in ("bash", "python", "grpcurl"):
        words = "\n".join(blocks(kind))
        for feature in (
            "target_prefix",
            "protected_terms",
            "num_hypotheses",
            "translation_result",
            "word_graph",
            "sentences",
            "warnings",
            "deterministic",
        ):
            assert feature in words, f"no {kind} example of {feature}"


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


@pytest.fixture(scope="session")
def grpcurl() -> Path:
    """The program that the page speaks of, at the pinned version."""
    return Programs.default().path("grpcurl")


@pytest.mark.parametrize("number", range(len(blocks("grpcurl"))))
def test_every_grpcurl_block_is_answered(number: int, grpcurl: Path, environment: dict[str, str]) -> None:
    """As it stands on the page, by a shell: quotes and the address included."""
    script = "set -euo pipefail\n" + blocks("grpcurl")[number]
    ended = subprocess.run(
        ["bash", "-c", script],
        env=environment | {"PATH": f"{grpcurl.parent}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.strip()
