"""The OpenAPI document: a fuzzer finds no answer that it does not tell of, and a generated client can call."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.predictor import Predictor
from tinymodel.settings import cache_dir

EXAMPLES = int(os.environ.get("SERVAL_LIVE_FUZZ_EXAMPLES") or 12)
"""Calls per operation; `make fuzz` takes many more."""

GENERATOR = "swagger-typescript-api@13.13.0"

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
"""Not `positive_data_acceptance`: that a shape fits its data, and that a language is one of the engine's, is beyond a
schema, and such calls are refused rightly."""


def test_a_fuzzer_finds_no_answer_that_the_document_does_not_tell_of(
    pair_predictor: Predictor, tmp_path: Path
) -> None:
    # The path's name is the engine's: any other is a 404 and teaches nothing.
    named = httpx.get(f"{pair_predictor.url}/openapi.json").json()
    for path in named["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                parameter["schema"] = {"const": pair_predictor.name}
    (tmp_path / "openapi.json").write_text(json.dumps(named))
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", str(tmp_path / "openapi.json")),
        *("--url", pair_predictor.url, "--checks", ",".join(CHECKS), "--max-examples", str(EXAMPLES)),
        *("--phases", "examples,coverage,fuzzing", "--generation-deterministic", "--no-color"),
        *("--request-timeout", "60", "--suppress-health-check", "all"),
    ]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=float(os.environ.get("SERVAL_LIVE_FUZZ_SECONDS") or 280),
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert "POST /v2/models/{name}/infer" in ended.stdout or "8 selected" in ended.stdout
    assert httpx.get(f"{pair_predictor.url}/v2/health/ready").status_code == 200


CALL = """
import { Api } from "./client.mjs";
const [url, name] = process.argv.slice(2);
const api = new Api({ baseUrl: url });
const tensor = { name: "text", datatype: "BYTES", shape: [1], data: ["The river rose."] };
const good = await api.v2.translate(name, { inputs: [tensor], outputs: [{ name: "translation" }] });
const ready = await api.v2.modelReady(name);
const refused = await api.v2.translate(name, { inputs: [] }).catch((answer) => answer);
console.log(JSON.stringify({ good: good.data, ready: ready.data, status: refused.status, error: refused.error }));
"""


@pytest.fixture(scope="module")
def generator() -> Path:
    """The generator's program; installed into the project's cache on first use."""
    folder = cache_dir() / f"npm-{GENERATOR.replace('@', '-')}"
    program = folder / "node_modules" / ".bin" / "swagger-typescript-api"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", GENERATOR]
        subprocess.run(install, cwd=folder, check=True, timeout=280)
    return program


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
def test_a_generated_client_translates_and_reads_a_refusal(
    pair_predictor: Predictor, generator: Path, tmp_path: Path
) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes(httpx.get(f"{pair_predictor.url}/openapi.json").content)
    generate = [
        str(generator),
        "generate",
        "--js",
        "-p",
        str(document),
        "-o",
        str(tmp_path),
        "-n",
        "client.js",
    ]
    subprocess.run(generate, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    (tmp_path / "client.js").rename(tmp_path / "client.mjs")
    (tmp_path / "call.mjs").write_text(CALL)
    ended = subprocess.run(
        ["node", str(tmp_path / "call.mjs"), pair_predictor.url, pair_predictor.name],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen["good"]["outputs"][0]["data"][0]
    assert seen["ready"] == {"name": pair_predictor.name, "ready": True}
    assert (seen["status"], seen["error"]["reason"]) == (400, "BadRequest")
