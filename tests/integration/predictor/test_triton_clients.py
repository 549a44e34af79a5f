"""Triton's HTTP and gRPC clients against a process: JSON, binary, compressed, and the extensions that they know."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.predictor.conftest import ENGINE_ID, SERVICE
from tests.support.predictor import ROOT, Predictor
from tests.support.venvs import python_with

REQUIREMENTS = ROOT / "tests" / "support" / "requirements-triton.txt"
TEXTS = ["He went to the land of Moab.", "Light.", ""]


@pytest.fixture(scope="session")
def triton_python() -> Path:
    """An interpreter that has the clients."""
    return python_with(REQUIREMENTS, "triton")


@pytest.mark.timeout(600)
def test_tritons_clients_can_use_everything_that_they_know_and_get_the_same_answer(
    any_pair_predictor: Predictor, triton_python: Path
) -> None:
    rest = any_pair_predictor.url.removeprefix("http://")
    command = [str(triton_python), str(ROOT / "tests" / "support" / "triton_client.py"), rest]
    command += [any_pair_predictor.grpc_address, SERVICE, *TEXTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    tensor = {"name": "text", "datatype": "BYTES", "shape": [len(TEXTS)], "data": TEXTS}
    wanted = any_pair_predictor.infer({"inputs": [tensor]}).json()["outputs"][0]["data"]
    assert wanted[0]
    for protocol, count in (("http", 12), ("grpc", 2)):
        answers = found[protocol]
        assert (answers["live"], answers["ready"], answers["server"]) == (True, True, "serval-live")
        assert answers["metadata"][0] == answers["config"][0] == "text"
        assert answers["metadata"] == answers["config"]
        assert answers["stats"] == SERVICE
        assert answers["index"] == [SERVICE, ENGINE_ID, "default"]
        translations = [value for name, value in answers.items() if name.startswith("infer")]
        assert translations == [wanted] * count
