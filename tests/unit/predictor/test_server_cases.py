"""Situations that callers met with other servers: each on real servers of both protocols, over loopback."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from prometheus_client import REGISTRY

from nllb_predictor.engine.domain import How, Hypothesis, Segment
from nllb_predictor.engine.scheduler import Scheduler, Ticket
from nllb_predictor.server import command
from nllb_predictor.server.lifecycle import Lifecycle, State
from nllb_predictor.server.sdk import messages
from nllb_predictor.server.wire.extensions import message
from tests.support.cases import case
from tests.support.in_process import in_process
from tests.support.waiting import eventually, eventually_sync


async def _on_the_loop(
    self: Scheduler, ticket: Ticket, segments: Sequence[Segment], how: How
) -> list[tuple[Hypothesis, ...]]:
    return self._engine.run(segments, how)


@case("p52", breaks="nllb_predictor.engine.scheduler:Scheduler.run", naive=_on_the_loop)
async def test_p52_live_and_ready_answer_while_the_engine_is_busy() -> None:
    async with in_process() as process:
        process.engine.gate.clear()
        call = asyncio.create_task(process.infer("slow"))
        await eventually(lambda: process.engine.running == 1)
        for path in ("/v2/health/live", "/v2/health/ready"):
            assert (await process.client.get(path)).status_code == 200
        assert (await process.stub.ServerLive(messages.ServerLiveRequest())).live
        assert (await process.stub.ServerReady(messages.ServerReadyRequest())).ready
        assert not call.done()
        process.engine.gate.set()
        assert (await call).json()["outputs"][0]["data"] == ["SLOW"]


@contextmanager
def _whatever_there_is(self: Lifecycle) -> Iterator[Any]:
    yield self.loaded


@case("p54", breaks="nllb_predictor.server.lifecycle:Lifecycle.request", naive=_whatever_there_is)
async def test_p54_a_grpc_call_while_the_model_loads_is_unavailable_with_a_retry_hint() -> None:
    async with in_process(loaded=False) as process:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await process.stub.ModelInfer(process.request("x"))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert int(dict(refused.value.trailing_metadata())["retry-after"]) >= 1
        answer = await process.infer("x")
        assert (answer.status_code, answer.json()["reason"]) == (503, "NotReady")
        assert process.engine.sizes == []


NINE = 9_000_000


@case(
    "p61",
    breaks="nllb_predictor.server.grpc_server:bounded",
    naive=lambda content, what, limit: content,
)
async def test_p61_large_messages_pass_on_both_protocols_up_to_one_limit_that_refusals_name() -> None:
    text = "a" * NINE
    async with in_process() as process:
        assert (await process.infer(text)).json()["outputs"][0]["data"] == [text.upper()]
        answer = await process.stub.ModelInfer(process.request(text))
        assert answer.outputs[0].contents.bytes_contents[0].decode() == text.upper()
    async with in_process(max_message_bytes=NINE) as process:
        refused = await process.infer(text)
        assert (refused.status_code, refused.json()["reason"]) == (413, "PayloadTooLarge")
        assert "--max-message-bytes" in refused.json()["hint"]
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await process.stub.ModelInfer(process.request(text))
        assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "--max-message-bytes" in (told.value.details() or "")
        half = text[: NINE - 1000]
        assert (await process.infer(half)).status_code == 200
        assert (await process.stub.ModelInfer(process.request(half))).outputs


@case("p62", breaks="nllb_predictor.server.model:TruthfulDataPlane.require")
async def test_p62_the_name_its_aliases_and_an_encoded_colon_work_and_others_are_told_what_there_is() -> None:
    async with in_process(model_name="engine-7", engine_id="66c4") as process:
        for name in ("engine-7", "66c4", "default"):
            assert (await process.infer("x", name=name)).json()["model_name"] == "engine-7"
            assert (await process.stub.ModelInfer(process.request("x", name=name))).model_name == "engine-7"
        body = {"instances": ["x"]}
        for path in ("/v1/models/engine-7:predict", "/v1/models/engine-7%3Apredict"):
            answer = await process.client.post(path, json=body)
            assert answer.json() == {"predictions": [{"translation": "X"}]}
        refused = await process.infer("x", name="nllb")
        assert refused.status_code == 404
        for name in ("engine-7", "66c4", "default"):
            assert name in refused.json()["hint"]
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await process.stub.ModelInfer(process.request("x", name="nllb"))
        assert told.value.code() is grpc.StatusCode.NOT_FOUND
        assert "engine-7" in (told.value.details() or "")
    async with in_process(engine_id="66c4") as process:
        assert (await process.infer("x", name="default")).json()["model_name"] == "66c4"


async def _at_once(self: Any, rest: Any, serving: Any, grpc_server: Any) -> None:
    rest.should_exit = rest.force_exit = True
    await asyncio.gather(grpc_server.stop(grace=0), serving)


@case("p76", breaks="nllb_predictor.server.app:NllbServer._shut_down", naive=_at_once)
async def test_p76_sigterm_under_load_is_unready_at_once_and_loses_no_call_of_either_protocol() -> None:
    async with in_process(lame_duck_s=1.0, grace_period_s=60.0) as process:
        process.engine.gate.clear()
        calls = [
            asyncio.create_task(process.infer("rest")),
            asyncio.ensure_future(process.stub.ModelInfer(process.request("grpc"))),
        ]
        await eventually(lambda: process.lifecycle.running == 2)
        process.server._signalled(signal.SIGTERM)
        assert (await process.client.get("/v2/health/ready")).status_code == 503
        assert (await process.client.get("/v2/health/live")).status_code == 200
        assert not (await process.stub.ServerReady(messages.ServerReadyRequest())).ready
        late = asyncio.create_task(process.infer("late"))
        await eventually(lambda: process.lifecycle.running == 3)
        await eventually(lambda: process.lifecycle.state is State.DRAINING)
        refused = await process.infer("too late")
        assert (refused.status_code, refused.json()["reason"]) == (503, "ShuttingDown")
        assert int(refused.headers["retry-after"]) >= 1
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await process.stub.ModelInfer(process.request("too late"))
        assert told.value.code() is grpc.StatusCode.UNAVAILABLE
        process.engine.gate.set()
        answers = await asyncio.gather(*calls, late)
        assert answers[0].json()["outputs"][0]["data"] == ["REST"]
        assert answers[1].outputs[0].contents.bytes_contents[0] == b"GRPC"
        assert answers[2].json()["outputs"][0]["data"] == ["LATE"]
        await asyncio.wait_for(asyncio.shield(process.serving), 30)


def _with_everything_that_runs(code: int) -> None:
    sys.exit(code)


@case("p44", breaks="nllb_predictor.server.command:_leave", naive=_with_everything_that_runs)
def test_p44_the_end_of_the_process_waits_for_no_thread() -> None:
    """A batch whose caller is gone, or a load, may still run on a thread of a native library."""
    child = os.fork()
    if child == 0:
        threading.Thread(target=threading.Event().wait).start()
        try:
            command._leave(7)
        except SystemExit:
            threading._shutdown()  # type: ignore[attr-defined]
        os._exit(99)
    ended: list[int] = []

    def look() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    try:
        eventually_sync(look, timeout=10)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [7]


async def test_a_full_queue_is_told_in_both_protocols_with_the_time_to_wait() -> None:
    async with in_process() as process:
        process.engine.gate.clear()
        first = asyncio.create_task(process.infer("first"))
        await eventually(lambda: process.engine.running == 1)
        others = [asyncio.create_task(process.infer("other")) for _ in range(4)]
        await eventually(lambda: process.lifecycle.loaded is not None and process.lifecycle.running == 5)
        refused = await process.infer("x")
        assert (refused.status_code, refused.json()["reason"]) == (429, "Overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await process.stub.ModelInfer(process.request("x"))
        assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "retry-after" in dict(told.value.trailing_metadata())
        process.engine.gate.set()
        assert {answer.status_code for answer in await asyncio.gather(first, *others)} == {200}


async def test_the_work_of_a_rest_caller_that_hangs_up_is_dropped() -> None:
    async with in_process() as process:
        process.engine.gate.clear()
        first = asyncio.create_task(process.infer("first"))
        await eventually(lambda: process.engine.running == 1)
        leaving = asyncio.create_task(process.infer("leaving"))
        await eventually(lambda: process.lifecycle.running == 2)
        leaving.cancel()
        await eventually(lambda: process.lifecycle.running == 1)
        process.engine.gate.set()
        assert (await first).status_code == 200
        assert process.engine.sizes == [1]


async def test_the_work_of_a_grpc_caller_that_hangs_up_is_dropped() -> None:
    async with in_process() as process:
        process.engine.gate.clear()
        first = asyncio.create_task(process.infer("first"))
        await eventually(lambda: process.engine.running == 1)
        leaving = process.stub.ModelInfer(process.request("leaving"))
        await eventually(lambda: process.lifecycle.running == 2)
        leaving.cancel()
        await eventually(lambda: process.lifecycle.running == 1)
        process.engine.gate.set()
        assert (await first).status_code == 200
        assert process.engine.sizes == [1]


async def test_a_request_id_is_echoed_or_made_and_logged_without_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with in_process() as process:
        answer = await process.infer("secret words", **{"x-request-id": "call-17"})
        assert answer.headers["x-request-id"] == "call-17"
        assert len((await process.infer("x")).headers["x-request-id"]) == 36
        assert (await process.client.get("/nowhere", headers={"x-request-id": "n"})).status_code == 404
        call = process.stub.ModelInfer(process.request("x"), metadata=(("x-request-id", "call-18"),))
        assert dict(await call.initial_metadata())["x-request-id"] == "call-18"
        await call
    records = [vars(record) for record in caplog.records if hasattr(record, "request")]
    assert [record["request"] for record in records][::2] == ["call-17", "call-18"]
    assert {(record["protocol"], record["outcome"], record["segments"]) for record in records} == {
        ("v2", "OK", 1),
        ("grpc", "OK", 1),
    }
    assert not any("secret" in str(vars(record)) for record in caplog.records)


async def test_what_is_refused_before_it_reaches_the_model_is_counted_by_its_reason() -> None:
    def counted(protocol: str, outcome: str) -> float:
        labels = {"protocol": protocol, "outcome": outcome}
        return REGISTRY.get_sample_value("serval_live_requests_total", labels) or 0.0

    refused = [("v2", "BadRequest"), ("v1", "BadRequest"), ("v2", "UnknownModel"), ("grpc", "UnknownModel")]
    before = [counted(*each) for each in refused]
    async with in_process() as process:
        assert (await process.client.post("/v2/models/nllb/infer", content=b"{")).status_code == 400
        assert (await process.client.post("/v1/models/nllb:predict", content=b"[]")).status_code == 400
        assert (await process.infer("x", name="nobody")).status_code == 404
        with pytest.raises(grpc.aio.AioRpcError):
            await process.stub.ModelInfer(process.request("x", name="nobody"))
        stats = (await process.client.get("/v2/models/nllb/stats")).json()["model_stats"]
    assert [counted(*each) for each in refused] == [count + 1 for count in before]
    assert stats[0]["inference_stats"]["fail"]["count"] == 2


async def test_texts_are_logged_only_where_that_is_switched_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with in_process(log_text=True) as process:
        await process.infer("words")
    record = next(vars(record) for record in caplog.records if hasattr(record, "request"))
    assert (record["texts"], record["translations"]) == (("words",), ("WORDS",))


async def test_statistics_configuration_and_index_say_the_same_on_both_protocols() -> None:
    async with in_process() as process:
        await process.infer("a")
        await process.infer("b", name="default")
        await process.client.post("/v2/models/nllb/infer", json={"inputs": []})
        stats = (await process.client.get("/v2/models/nllb/stats")).json()["model_stats"]
        assert [row["inference_stats"]["success"]["count"] for row in stats] == [2]
        assert stats[0]["inference_stats"]["fail"]["count"] == 1
        over_grpc = await _extension(process.channel, "ModelStatistics", name="nllb")
        assert over_grpc.model_stats[0].inference_stats.success.count == 2
        assert over_grpc.model_stats[0].name == stats[0]["name"] == "nllb"
        config = (await process.client.get("/v2/models/nllb/config")).json()
        told = (await _extension(process.channel, "ModelConfig", name="nllb")).config
        assert [each["name"] for each in config["input"]] == [each.name for each in told.input]
        assert config["input"][0] == {"name": "text", "data_type": "TYPE_STRING", "dims": [-1]}
        index = (await process.client.post("/v2/repository/index")).json()
        rows = (await _extension(process.channel, "RepositoryIndex")).models
        assert [(row["name"], row["state"]) for row in index] == [("nllb", "READY"), ("default", "READY")]
        assert [row.name for row in rows] == ["nllb", "default"]
    async with in_process(loaded=False) as process:
        index = (await process.client.post("/v2/repository/index", json={"ready": True})).json()
        assert index == []
        [row, _] = (await process.client.post("/v2/repository/index", json={})).json()
        assert (row["state"], row["reason"]) == ("UNAVAILABLE", "starting")


async def _extension(channel: Any, method: str, **fields: Any) -> Any:
    call = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method}",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=message(f"{method}Response").FromString,
    )
    return await call(message(f"{method}Request")(**fields))


async def test_metrics_tell_waits_sizes_tokens_and_memory_and_no_text() -> None:
    async with in_process() as process:
        await process.infer("secret")
        text = (await process.client.get("/metrics")).text
    for name in (
        "queue_segments",
        "memory_bytes",
        "requests_total",
        "warnings_total",
        "queue_wait_seconds_sum",
    ):
        assert f"serval_live_{name}" in text
    assert "secret" not in text.lower()
    [loops] = [
        line for line in text.splitlines() if line.startswith('serval_live_warnings_total{kind="loop"}')
    ]
    assert float(loops.rpartition(" ")[2]) >= 1


def test_json_log_lines_are_json_with_the_listed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    from nllb_predictor.server import logs

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("info", "json")
        logging.getLogger("x").info("request", extra={"request": "7", "other": "hidden"})
        line = json.loads(capsys.readouterr().err)
        assert (line["message"], line["request"], line["level"]) == ("request", "7", "info")
        assert "other" not in line
        logs.configure("info", "text")
        logging.getLogger("x").info("request", extra={"request": "7"})
        assert "request request=7" in capsys.readouterr().err
    finally:
        root.handlers[:], root.level = handlers, level
