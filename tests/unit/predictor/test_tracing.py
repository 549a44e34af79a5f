"""Traces: one span for each call, its stages below it, sent to a real collector; where they are off, nothing at all."""

import subprocess
import sys
from typing import Any

import grpc
import pytest

from nllb_predictor import stages
from nllb_predictor.errors import UsageError
from nllb_predictor.server.tracing import Traces
from nllb_predictor.settings import ServeSettings
from nllb_predictor.stages import Facts, Stage
from tests.support.collector import attributes, collector
from tests.support.in_process import in_process
from tests.support.pipeline import WordEngine, pipeline
from tests.support.predictor import ROOT

PARENT = "00f067aa0ba902b7"


def context(number: int, sampled: bool = True) -> str:
    """A caller's W3C trace context."""
    return f"00-{number:032x}-{PARENT}-{sampled:02x}"


async def test_a_call_of_either_protocol_is_a_span_in_the_callers_trace_with_its_stages() -> None:
    with collector() as seen:
        async with in_process(trace_endpoint=seen.url) as process:
            answer = await process.infer("secret", **{"traceparent": context(1), "x-request-id": "call-1"})
            assert answer.status_code == 200
            metadata = (("traceparent", context(2)), ("x-request-id", "call-2"))
            await process.stub.ModelInfer(process.request("secret"), metadata=metadata)
            body = {"instances": ["secret"]}
            await process.client.post(
                "/v1/models/nllb:predict", json=body, headers={"traceparent": context(3)}
            )
        for number, protocol in enumerate(("v2", "grpc", "v1"), start=1):
            own = [span for span in seen.spans if int.from_bytes(span.trace_id, "big") == number]
            [call] = [span for span in own if span.name == "translate"]
            assert call.parent_span_id.hex() == PARENT
            facts = attributes(call)
            assert (facts["protocol"], facts["outcome"], facts["segments"]) == (protocol, "OK", 1)
            below = {span.name: span for span in own if span.parent_span_id == call.span_id}
            assert set(below) == {"queue", "batch"}
            assert below["queue"].end_time_unix_nano == below["batch"].start_time_unix_nano
            assert attributes(below["batch"])["work"] == "Search"
        assert {attributes(span).get("request.id") for span in seen.spans} >= {"call-1", "call-2"}
        assert seen.bodies
        assert not any(b"secret" in body.lower() for body in seen.bodies)


async def test_a_refused_call_is_a_failed_span_that_names_the_reason() -> None:
    with collector() as seen:
        async with in_process(trace_endpoint=seen.url) as process:
            assert (await process.client.post("/v2/models/nllb/infer", content=b"{")).status_code == 400
            with pytest.raises(grpc.aio.AioRpcError):
                await process.stub.ModelInfer(process.request("x", name="nobody"))
        told = [(attributes(span)["outcome"], span.status.code) for span in seen.spans]
    assert told == [("BadRequest", 2), ("UnknownModel", 2)]


async def test_a_caller_that_does_not_sample_its_trace_is_not_traced() -> None:
    with collector() as seen:
        async with in_process(trace_endpoint=seen.url) as process:
            await process.infer("x", **{"traceparent": context(1, sampled=False)})
            await process.infer("x", **{"traceparent": context(2)})
        assert {int.from_bytes(span.trace_id, "big") for span in seen.spans} == {2}


async def test_the_log_line_of_a_traced_call_names_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with collector() as seen:
        async with in_process(trace_endpoint=seen.url) as process:
            await process.infer("x", **{"traceparent": context(7)})
    [line] = [vars(record) for record in caplog.records if hasattr(record, "request")]
    assert line["trace"] == f"{7:032x}"


async def test_the_pipeline_tells_its_stages_in_order_and_only_to_who_listens() -> None:
    heard: list[tuple[Stage, Facts]] = []

    def listen(stage: Stage, started: float, ended: float, facts: Facts) -> None:
        assert started <= ended
        heard.append((stage, facts))

    with pipeline(WordEngine()) as model:
        await model.answer("nobody listens")
        listening = stages.listener.set(listen)
        await model.answer("One. Two.")
        stages.listener.reset(listening)
        await model.answer("nobody listens")
    assert [stage for stage, _ in heard] == list(Stage)
    assert dict(heard)[Stage.BATCH]["segments"] == 2
    assert not any("One" in str(facts) for _, facts in heard)


def test_without_the_sdk_the_setting_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Any = None
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", missing)
    with pytest.raises(UsageError, match=r"tracing"):
        Traces.of(ServeSettings(trace_endpoint="http://collector:4318/v1/traces"))


@pytest.mark.parametrize(
    "given", [{"trace_endpoint": "collector:4318"}, {"trace_ratio": 1.5}, {"trace_ratio": -0.1}]
)
def test_settings_that_could_trace_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--trace-"):
        ServeSettings(**given)


def test_where_traces_are_off_nothing_of_them_is_imported() -> None:
    program = (
        "import sys\n"
        "from nllb_predictor.server.app import NllbServer\n"
        "from nllb_predictor.server.lifecycle import Lifecycle\n"
        "from nllb_predictor.settings import ServeSettings\n"
        "NllbServer(ServeSettings(), Lifecycle(), None)\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    paths = [str(ROOT / part) for part in ("predictor", "contract")]
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{program}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.strip() == "[]"
