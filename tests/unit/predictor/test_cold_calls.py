"""Calls that meet a process before its model: none ends without a typed answer (E9)."""

import asyncio
from typing import Any

from tests.support.cases import case
from tests.support.in_process import in_process


@case("E9", breaks="nllb_predictor.server.lifecycle:Lifecycle.ready", naive=lambda self: True)
async def test_e9_fifty_calls_at_a_cold_start_are_told_to_come_again_and_the_process_is_not_ready() -> None:
    async with in_process(loaded=False) as process:
        assert (await process.client.get("/v2/health/ready")).status_code == 503
        answers: list[Any] = await asyncio.gather(*(process.infer("x") for _ in range(50)))
        assert {answer.status_code for answer in answers} == {503}
        for answer in answers:
            assert answer.json()["reason"]
            assert int(answer.headers["retry-after"]) >= 1
        assert (await process.client.get("/v2/health/live")).status_code == 200
        assert process.lifecycle.running == 0
