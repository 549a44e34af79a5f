"""The API server's bad days, through a proxy: watches that die in silence (A1), 429 (A3), a rotated token (A15)."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import yaml

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    PATIENCE,
    Bench,
    OperatorProcess,
    writes_of,
)
from tests.support.fault_proxy import (
    Answer,
    Fault,
    FaultProxy,
    Kind,
    Match,
    Request,
    before_api_server,
    kubeconfig_through,
)
from tests.support.waiting import case_seconds, eventually

SLACK = 15.0
"""Seconds that two busy cores may add to what a case allows; what would miss its mark misses it by minutes."""

SILENCE = str(case_seconds(70, 2.0))


@asynccontextmanager
async def proxied(bench: Bench) -> AsyncIterator[tuple[FaultProxy, Path]]:
    """A proxy before the API server, and a kubeconfig that leads through it; operators end before it does."""
    with before_api_server(bench.plane, bench.folder) as proxy:
        yield proxy, kubeconfig_through(proxy, bench.plane, bench.folder)
        for operator in bench.operators:
            await operator.kill()


async def metrics_of(operator: OperatorProcess) -> dict[str, float]:
    """Samples of the operator's own page, by name and labels as written there."""
    line = next(one for one in operator.log.read_text().splitlines() if "health and metrics on port" in one)
    port = int(line.split("on port ")[1].split(";")[0])
    async with httpx.AsyncClient() as http:
        page = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    rows = (row.rsplit(" ", 1) for row in page.splitlines() if not row.startswith("#"))
    return {name: float(value) for name, value in rows}


async def make_engine_by_hand(bench: Bench, name: str) -> None:
    """A TranslationEngine that a person makes, for an engine that Serval does not have."""
    source = {"servalSource": "ruth", "engineId": "66c4a1f09d3e5b7a8c0f1e21"}
    body = {"metadata": {"name": name, "namespace": bench.namespace}, "spec": {"source": source}}
    await bench.cluster.create(ENGINES, body)


async def test_a1_a_watch_whose_connection_died_in_silence_is_begun_again(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    async with proxied(bench) as (proxy, kubeconfig):
        # Sweeps and lists are minutes away: only the watch can tell in time.
        operator = await bench.start_operator(
            kubeconfig=str(kubeconfig), sweep_every="9000", watch_silence=SILENCE
        )
        bench.serval.run_build(engine.id, bench.archive())
        await bench.until_serves(engine.id, 1)
        await bench.settle()
        stall = proxy.add(Fault(Kind.HANG, Match("watch=true"), only_running=True))
        await make_engine_by_hand(bench, "by-hand")
        ref = ObjectRef(INFERENCE_SERVICES, bench.namespace, f"e{engine.id}")
        removed = (await bench.cluster.get(ref))["metadata"]["uid"]
        await bench.cluster.delete(ref)

        async def age() -> float:
            return (await metrics_of(operator))['serval_live_watch_age_seconds{resource="inferenceservices"}']

        async def old() -> None:
            assert await age() > case_seconds(45)

        async def handled() -> None:
            made = await bench.find(ENGINES, "by-hand")
            assert made is not None
            assert made["status"]["conditions"]
            assert (await bench.cluster.get(ref))["metadata"]["uid"] != removed

        async def young() -> None:
            assert await age() < case_seconds(45)

        await eventually(old, timeout=case_seconds(90, SLACK), describe=bench.describe)
        await eventually(
            handled, timeout=case_seconds(90, SLACK), describe=bench.describe, retry_on=(Exception,)
        )
        await eventually(young, timeout=case_seconds(90, SLACK), describe=bench.describe)
        assert operator.process.returncode is None
        proxy.mend(stall)


async def test_a3_a_busy_api_server_is_left_alone_as_long_as_it_asks_and_loses_no_build(
    bench: Bench,
) -> None:
    engines = [bench.serval.add_engine() for _ in range(20)]
    await bench.make_source()
    asked = max(1, round(case_seconds(7)))
    async with proxied(bench) as (proxy, kubeconfig):
        operator = await bench.start_operator(
            kubeconfig=str(kubeconfig), max_converting="20", max_rolling="20", watch_silence=SILENCE
        )
        await bench.until_leads()
        bench.serval.run_build(engines[0].id, bench.archive())
        await bench.until_serves(engines[0].id, 1)
        told = json.dumps({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "busy"})
        busy = proxy.add(
            Fault(
                Kind.ANSWER,
                Match(for_=asked * 30 / 7),
                answer=Answer(429, told, retry_after=asked),
            )
        )
        for engine in engines[1:]:
            bench.serval.run_build(engine.id, bench.archive())
        await eventually(lambda: len(busy.hits) > 1, timeout=SLACK, describe=bench.describe)
        for engine in engines:
            await bench.until_serves(engine.id, 1, timeout=3 * PATIENCE)
        assert operator.process.returncode is None
        assert too_early(proxy, busy, asked) == []
    made = [one for one in writes_of(bench.writes(), "jobs") if one.startswith("create")]
    assert len([one for one in made if one.endswith("201")]) == 20
    assert len(bench.simulator.knative.created) == 20


def too_early(proxy: FaultProxy, busy: Fault, asked: int) -> list[tuple[str, str, float]]:
    """Requests of the operator, its watches included, that came earlier than a refusal allowed.

    What was on its way when the first refusal arrived is none of them.
    """
    on_its_way = 0.25
    found = []
    for refused in busy.hits:
        for later in proxy.requests():
            waited = later.at - refused.at
            if on_its_way < waited < asked - 0.01:
                found.append((later.method, later.target, waited))
    return found


def with_token_file(kubeconfig: Path, token: Path) -> Path:
    """The same kubeconfig, with a token that others replace instead of a certificate."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"][0]["user"] = {"tokenFile": str(token)}
    made = kubeconfig.with_name("token.kubeconfig")
    made.write_text(yaml.safe_dump(content))
    return made


def tokens_of(proxy: FaultProxy, agent: str, since: float) -> set[str]:
    """Tokens that kopf, or our own clients, have used since a moment."""
    seen = [one for one in proxy.requests(agent="serval-live-operator") if one.at > since]
    mine = [one for one in seen if ("kopf" in one.agent) == (agent == "kopf")]
    return {one.headers["authorization"].removeprefix("Bearer ") for one in mine}


async def test_a15_a_rotated_token_is_used_in_time_by_both_clients_and_loses_nothing(bench: Bench) -> None:
    engines = [bench.serval.add_engine() for _ in range(4)]
    await bench.make_source()
    token = bench.folder / "token"
    token.write_text("old")
    accepted = {"old"}

    def refused(request: Request) -> bool:
        return request.headers.get("authorization", "").removeprefix("Bearer ") not in accepted

    async with proxied(bench) as (proxy, kubeconfig):
        unauthorized = Answer(401, json.dumps({"kind": "Status", "code": 401, "reason": "Unauthorized"}))
        proxy.add(Fault(Kind.ANSWER, when=refused, answer=unauthorized))
        operator = await bench.start_operator(
            kubeconfig=str(with_token_file(kubeconfig, token)), watch_silence=SILENCE
        )
        bench.serval.run_build(engines[0].id, bench.archive())
        await bench.until_serves(engines[0].id, 1)
        token.write_text("new")
        accepted.add("new")
        rotated = time.monotonic()
        bench.serval.run_build(engines[1].id, bench.archive())

        def both_fresh() -> None:
            for agent in ("kopf", "ours"):
                assert "new" in tokens_of(proxy, agent, rotated), f"{agent} has not used it yet"

        await eventually(both_fresh, timeout=case_seconds(60, SLACK), describe=bench.describe)
        accepted.discard("old")
        revoked = time.monotonic()
        for engine in engines[2:]:
            bench.serval.run_build(engine.id, bench.archive())
        for engine in engines:
            await bench.until_serves(engine.id, 1)

        def both_used() -> None:
            assert operator.process.returncode is None
            assert all(tokens_of(proxy, agent, revoked) for agent in ("kopf", "ours")), "a watch begins again"

        await eventually(both_used, timeout=case_seconds(90, SLACK), describe=bench.describe)
        for agent in ("kopf", "ours"):
            assert tokens_of(proxy, agent, revoked) == {"new"}
