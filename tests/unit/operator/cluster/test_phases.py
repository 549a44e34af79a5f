"""Asking a pod for the phases of its start: the answer, and every way not to get one."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from engine_operator.cluster.phases import PhaseReader

GOOD = {"name": "e1", "properties": {"phases": json.dumps({"python": 1.25, "load": 2, "bare": 3})}}


async def ask(answer: httpx.Response | Exception, asked: list[str], address: str = "10.0.0.7") -> object:
    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await PhaseReader(8080, httpx.MockTransport(handle)).ask(address, "e1")


async def test_the_pods_own_metadata_page_is_asked_past_every_proxy() -> None:
    asked: list[str] = []
    assert await ask(httpx.Response(200, json=GOOD), asked) == {"python": 1.25, "load": 2.0}
    await ask(httpx.Response(200, json=GOOD), asked, "fd00::7")
    assert asked == ["http://10.0.0.7:8080/v2/models/e1", "http://[fd00::7]:8080/v2/models/e1"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("a mesh"),
        httpx.Response(503),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=["no", "object"]),
        httpx.Response(200, json={"properties": {}}),
        httpx.Response(200, json={"properties": {"phases": "not JSON"}}),
    ],
)
async def test_a_pod_that_cannot_be_asked_tells_nothing(answer: httpx.Response | Exception) -> None:
    assert await ask(answer, []) == {}


async def last_used(answer: httpx.Response | Exception) -> datetime | None:
    def handle(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v2/models/e1/stats"
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await PhaseReader(8080, httpx.MockTransport(handle)).last_used("10.0.0.7", "e1")


async def test_the_last_call_is_read_from_the_pods_statistics() -> None:
    stats = {"model_stats": [{"name": "e1", "last_inference": 1_796_083_200_500}]}
    assert await last_used(httpx.Response(200, json=stats)) == datetime(2026, 12, 1, 0, 0, 0, 500_000, UTC)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.Response(503),
        httpx.Response(200, json={"model_stats": []}),
        httpx.Response(200, json={"model_stats": [{"last_inference": 0}]}),
        httpx.Response(200, json={"model_stats": [{"last_inference": "soon"}]}),
        httpx.Response(200, text="<html>"),
    ],
)
async def test_a_pod_that_was_never_called_or_does_not_answer_tells_no_last_call(
    answer: httpx.Response | Exception,
) -> None:
    assert await last_used(answer) is None
