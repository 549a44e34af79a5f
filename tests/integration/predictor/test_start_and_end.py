"""A process from open ports to its end: truthful health, refusal of wrong models, and a shutdown without lost calls."""

import asyncio
import json
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

from nllb_predictor.convert.run import Converted
from tests.integration.predictor.conftest import DATA, ENGINE_ID, REVISION
from tests.support.predictor import Predictor, start_predictor
from tests.support.waiting import eventually

Start = Callable[..., Predictor]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes that end with the test."""
    started: list[Predictor] = []

    def begin(model: str, *arguments: str, **environment: str) -> Predictor:
        predictor = start_predictor(tmp_path / f"process-{len(started)}", model, arguments, environment)
        started.append(predictor)
        return predictor

    yield begin
    for predictor in started:
        predictor.stop()


@pytest.fixture
def silent_store() -> Iterator[str]:
    """An S3 endpoint that takes connections and never answers: a download that lasts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def with_manifest(model: Converted, folder: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """A copy of the model whose manifest says something else."""
    shutil.copytree(model.uri, folder)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return str(folder)


def loading(start: Start, endpoint: str) -> Predictor:
    """A process whose ports are open and whose model never comes."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return start("s3://bucket/artifacts/a/r3/ct2v1-0/", "--s3-endpoint", endpoint, **keys).wait_listening()


def test_while_the_model_loads_the_process_is_live_and_nothing_says_ready(
    start: Start, silent_store: str
) -> None:
    predictor = loading(start, silent_store)
    assert httpx.get(predictor.url + "/v2/health/live").json() == {"live": True}
    for path in ("/v2/health/ready", "/", "/v2/models/nllb/ready", "/v1/models/nllb", "/v2/models/nllb"):
        answer = httpx.get(predictor.url + path)
        assert (answer.status_code, answer.json()["reason"]) == (503, "NotReady"), path
        assert "downloading" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) >= 1
    answer = predictor.infer({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["x"]}]})
    assert (answer.status_code, answer.json()["reason"]) == (503, "NotReady")


async def test_grpc_calls_to_a_loading_model_are_unavailable_with_a_retry_hint(
    start: Start, silent_store: str
) -> None:
    predictor = await asyncio.to_thread(loading, start, silent_store)
    async with grpc.aio.insecure_channel(predictor.grpc_address) as channel:
        stub = services.GRPCInferenceServiceStub(channel)
        assert (await stub.ServerLive(pb.ServerLiveRequest())).live
        assert not (await stub.ServerReady(pb.ServerReadyRequest())).ready
        assert not (await stub.ModelReady(pb.ModelReadyRequest(name="nllb"))).ready
        request = pb.ModelInferRequest(model_name="nllb")
        request.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"x")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "retry-after" in {key for key, _ in refused.value.trailing_metadata() or ()}


def test_sigterm_while_loading_ends_the_process_at_once(start: Start, silent_store: str) -> None:
    predictor = loading(start, silent_store)
    predictor.terminate()
    assert predictor.wait_exit(20) == 0


def test_wrong_identity_is_a_load_failure_with_its_own_reason(start: Start, int8_model: Converted) -> None:
    wrong = {
        "WrongArtifact": [
            {"SERVAL_LIVE_MODEL_REVISION": str(REVISION + 1)},
            {"SERVAL_LIVE_ENGINE_ID": ENGINE_ID[::-1]},
        ],
        "ChecksumMismatch": [{"SERVAL_LIVE_MANIFEST_SHA256": "0" * 64}],
    }
    started = [
        (reason, start(int8_model.uri, **environment))
        for reason, cases in wrong.items()
        for environment in cases
    ]
    for reason, predictor in started:
        assert predictor.wait_exit() not in (0, 1, 2)
        assert predictor.termination()["reason"] == reason
        assert predictor.termination()["message"]


def test_a_folder_without_a_model_is_a_load_failure(start: Start, tmp_path: Path) -> None:
    predictor = start(str(tmp_path))
    assert predictor.wait_exit() not in (0, 1, 2)
    assert predictor.termination()["reason"] == "ObjectMissing"
    assert str(tmp_path) in predictor.termination()["message"]


def test_damaged_weights_are_never_served_and_told_as_such(
    start: Start, int8_model: Converted, tmp_path: Path
) -> None:
    """One flipped bit in a number, which still opens and translates, and one in the structure, which does not open."""
    started = []
    for name, place in (("number", lambda size: size // 2), ("structure", lambda size: 8)):
        folder = Path(shutil.copytree(int8_model.uri, tmp_path / name))
        content = bytearray((folder / "model.bin").read_bytes())
        content[place(len(content))] ^= 1
        (folder / "model.bin").write_bytes(content)
        started.append(start(str(folder)))
    for predictor in started:
        assert predictor.wait_exit() not in (0, 1, 2)
        assert predictor.termination()["reason"] == "ChecksumMismatch"
        assert "state: ready" not in predictor.log


def test_probes_that_translate_differently_are_a_load_failure(
    start: Start, int8_model: Converted, tmp_path: Path
) -> None:
    def other_token(manifest: dict[str, Any]) -> None:
        tokens = manifest["selfTest"]["probes"][0]["tokens"]
        tokens[-2] += 1

    def other_score(manifest: dict[str, Any]) -> None:
        manifest["selfTest"]["probes"][0]["score"] -= 0.2

    for number, change in enumerate((other_token, other_score)):
        predictor = start(with_manifest(int8_model, tmp_path / f"changed-{number}", change))
        assert predictor.wait_exit() not in (0, 1, 2)
        assert predictor.termination()["reason"] == "ProbeMismatch"


def test_another_compute_type_passes_the_probes_within_tolerance_and_is_reported(
    start: Start, int8_model: Converted
) -> None:
    predictor = start(int8_model.uri, "--compute-type", "float32").wait_ready()
    properties = httpx.get(predictor.url + "/v2/models/nllb").json()["properties"]
    assert (properties["computeType"], properties["quantization"]) == ("float32", "int8")


def test_half_precision_on_a_cpu_reports_what_is_really_computed(start: Start, int8_model: Converted) -> None:
    predictor = start(int8_model.uri, "--compute-type", "float16", "--device", "cpu").wait_ready()
    properties = httpx.get(predictor.url + "/v2/models/nllb").json()["properties"]
    assert (properties["requestedComputeType"], properties["computeType"]) == ("float16", "float32")


def test_a_raw_checkpoint_is_converted_into_the_cache_once(start: Start, tmp_path: Path) -> None:
    """The cache may be the only folder that can be written; the checkpoint stays as it is."""
    source, cache = str(DATA / "tiny-nllb"), str(tmp_path / "cache")
    before = sorted((file.name, file.stat().st_mtime_ns) for file in Path(source).iterdir())
    logs = []
    for _ in range(2):
        predictor = start(source, "--cache-dir", cache).wait_ready()
        assert httpx.get(predictor.url + "/v2/models/nllb").json()["properties"]["quantization"] == "int8"
        logs.append(predictor.log)
        predictor.stop()
    assert "converting checkpoint" in logs[0]
    assert "converting checkpoint" not in logs[1]
    assert "was converted before" in logs[1]
    assert sorted((file.name, file.stat().st_mtime_ns) for file in Path(source).iterdir()) == before


def test_a_misspelt_setting_is_refused_and_told(start: Start, int8_model: Converted) -> None:
    predictor = start(int8_model.uri, SERVAL_LIVE_BEAMSIZE="2")
    assert predictor.wait_exit() == 2
    assert "SERVAL_LIVE_BEAMSIZE" in predictor.termination()["message"]


def test_a_port_in_use_is_a_failure_with_its_own_reason(start: Start, int8_model: Converted) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for flag in ("--rest-port", "--grpc-port"):
            predictor = start(int8_model.uri, flag, str(taken.getsockname()[1]))
            assert predictor.wait_exit() not in (0, 1, 2)
            assert predictor.termination()["reason"] == "PortTaken"


COUNT = 512
"""Segments of a long call: eight batches, so that it is still running when the signal comes."""
PATIENT = ("--max-output-tokens", "60", "--timeout-ms", "120000", "--grace-period-s", "120")
LONG_TEXTS = ["He went to the land of Moab with his wife and his two sons."] * COUNT
LONG = {
    "inputs": [
        {
            "name": "text",
            "datatype": "BYTES",
            "shape": [COUNT],
            "data": LONG_TEXTS,
        }
    ],
}


async def test_sigterm_is_unready_at_once_and_running_calls_of_both_protocols_finish(
    start: Start, int8_model: Converted
) -> None:
    predictor = await asyncio.to_thread(
        lambda: start(int8_model.uri, "--lame-duck-s", "1", *PATIENT).wait_ready()
    )
    request = pb.ModelInferRequest(model_name="nllb")
    texts = [text.encode() for text in LONG_TEXTS]
    request.inputs.add(name="text", datatype="BYTES", shape=[COUNT]).contents.bytes_contents.extend(texts)
    async with (
        httpx.AsyncClient(base_url=predictor.url, timeout=120) as client,
        grpc.aio.insecure_channel(predictor.grpc_address) as channel,
    ):
        over_rest = asyncio.create_task(client.post("/v2/models/nllb/infer", json=LONG))
        over_grpc = asyncio.ensure_future(services.GRPCInferenceServiceStub(channel).ModelInfer(request))

        async def running() -> bool:
            lines = (await client.get("/metrics")).text.splitlines()
            return "serval_live_running_requests 2.0" in lines

        await eventually(running)
        predictor.terminate()
        await eventually(lambda: "signal: SIGTERM" in predictor.log)
        assert (await client.get("/v2/health/ready")).status_code == 503
        assert (await client.get("/v2/health/live")).status_code == 200
        answer, message = await asyncio.gather(over_rest, over_grpc)
    assert answer.status_code == 200
    assert (
        len(answer.json()["outputs"][0]["data"]) == len(message.outputs[0].contents.bytes_contents) == COUNT
    )
    assert await asyncio.to_thread(predictor.wait_exit) == 0


async def test_new_calls_are_answered_in_the_lame_duck_time_and_refused_after_it(
    start: Start, int8_model: Converted
) -> None:
    predictor = await asyncio.to_thread(
        lambda: start(int8_model.uri, "--lame-duck-s", "2", *PATIENT).wait_ready()
    )
    short = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["Light."]}]}
    async with httpx.AsyncClient(base_url=predictor.url, timeout=120) as client:
        long_call = asyncio.create_task(client.post("/v2/models/nllb/infer", json=LONG))
        await eventually(lambda: not long_call.done())
        predictor.terminate()
        await eventually(lambda: "leaving, still answering" in predictor.log)
        assert (await client.post("/v2/models/nllb/infer", json=short)).status_code == 200
        await long_call
    assert await asyncio.to_thread(predictor.wait_exit) == 0


def test_a_second_signal_ends_the_process_at_once(start: Start, int8_model: Converted) -> None:
    predictor = start(int8_model.uri, "--lame-duck-s", "30").wait_ready()
    predictor.terminate()
    predictor.process.send_signal(signal.SIGINT)
    assert predictor.wait_exit(20) != 0


def test_a_process_that_served_ends_by_itself_within_its_grace_period(
    start: Start, int8_model: Converted
) -> None:
    predictor = start(int8_model.uri).wait_ready()
    for _ in range(3):
        predictor.infer({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["Light."]}]})
    predictor.terminate()
    assert predictor.wait_exit(20) == 0
