"""Serval's builds and what becomes of them: B8 unservable, B9 deleted, B10 overtaken, B11 credentials that end."""

import time

import httpx

from engine_operator.cluster.client import ObjectRef
from tests.integration.operator.bench import (
    ENGINES,
    INFERENCE_SERVICES,
    JOBS,
    PATIENCE,
    PODS,
    SECRETS,
    Bench,
    writes_of,
)
from tests.integration.operator.test_a_handlers import told
from tests.support.kube_simulator.converter import Converter
from tests.support.kube_simulator.kubelet import arguments
from tests.support.serval import EngineSpec, EngineType
from tests.support.serval.domain import Ending, JobState
from tests.support.serval.faults import Answer, Match
from tests.support.waiting import case_seconds, consistently, eventually

UNSERVABLE = {
    "EngineTypeUnsupported": EngineSpec(type=EngineType.SMT_TRANSFER, revision=1),
    "ModelNotPersisted": EngineSpec(persisted=None, revision=3),
    "NeverTrained": EngineSpec(revision=0),
}


async def test_b8_what_makes_no_model_costs_no_job_and_is_told_once(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    skipped = {reason: bench.serval.add_engine(spec).id for reason, spec in UNSERVABLE.items()}
    skipped["EngineTypeUnsupported echo"] = bench.serval.add_engine(
        EngineSpec(type=EngineType.ECHO, revision=1)
    ).id
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    await bench.until_cursor(engine.id)
    for state in (JobState.CANCELED, JobState.FAULTED):
        bench.serval.run_build(engine.id, ending=Ending(state, message="as the test wished"))

        async def noticed(word: str = state.value) -> None:
            assert any("NotCompleted" in one and word in one for one in await told(bench))

        await eventually(noticed, timeout=PATIENCE, describe=bench.describe)
    before = await told(bench)
    for reason, engine_id in skipped.items():
        mine = [one for one in before if engine_id in one]
        assert [one.split(" ")[1] for one in mine] == [reason.split(" ")[0]]
    await operator.stop()
    await bench.start_operator()
    await bench.until_leads()

    async def unchanged() -> None:
        await bench.serves(engine.id, 1)
        assert await told(bench) == before

    await consistently(unchanged, for_=5.0, interval=0.5, describe=bench.describe)
    made = [one for one in writes_of(bench.writes(), "jobs") if one.startswith("create")]
    assert len(made) == 1, made
    assert len(await bench.all(ENGINES)) == 1


async def list_as_it_is(bench: Bench) -> str:
    """Serval's answer to the list, to be given again when it is no longer true."""
    async with httpx.AsyncClient(base_url=bench.serval.url) as http:
        answer = await http.get("/api/v1/translation/engines", headers={"X-API-Key": bench.key})
    return answer.text


async def test_b9_an_engine_that_is_deleted_while_it_is_converted_leaves_nothing_and_stays_away(
    bench: Bench,
) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversions_may_end.clear()
    await bench.start_operator(collect_every="30")
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_job(engine.id, revision=1)
    stale = await list_as_it_is(bench)
    bench.serval.delete_engine(engine.id)

    async def missed() -> None:
        assert engine.id in (await bench.source_status()).get("missing", {})

    await eventually(missed, timeout=PATIENCE, describe=bench.describe)
    bench.simulator.world.conversions_may_end.set()

    async def nothing_left() -> None:
        for resource in (ENGINES, INFERENCE_SERVICES, JOBS, PODS):
            assert await bench.all(resource) == []
        assert bench.manifests() == []

    await eventually(nothing_left, timeout=90, describe=bench.describe)
    assert bench.simulator.knative.created == [], "the conversion ended, and nothing was started with it"
    bench.serval.break_with(Answer(200, stale), Match("/translation/engines$", times=2))
    await consistently(nothing_left, for_=5.0, interval=0.2, describe=bench.describe)


async def test_b10_an_older_conversion_that_ends_after_a_newer_one_changes_nothing(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source()
    bench.simulator.world.conversions_may_end.clear()
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    older = await bench.until_job(engine.id, revision=1)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_job(engine.id, revision=2)
    bench.simulator.world.conversions_may_end.set()
    await bench.until_serves(engine.id, 2)
    given = arguments(older["spec"]["template"]["spec"]["containers"][0])
    source = f"s3://{bench.bucket}/{bench.serval.archives.key(engine.id, 1)}"
    assert await Converter(bench.store).convert({**given, "source": source}, None) is None, (
        "a container that no kubelet could stop in time writes its manifest after all"
    )
    assert [key.split("/")[1] for key in bench.manifests()] == ["r1", "r2"]

    async def stays() -> None:
        status = await bench.serves(engine.id, 2)
        assert status["target"]["revision"] == 2

    await consistently(stays, for_=4.0, describe=bench.describe)
    superseded = [one for one in await told(bench) if " Superseded " in one]
    assert superseded == [
        f"e{engine.id} Superseded the conversion of revision 1 was ended: revision 2 is wanted"
    ]
    assert len(bench.simulator.knative.created) == 1


async def connected(bench: Bench) -> str:
    """Status and reason of the source's condition Connected."""
    found = {one["type"]: one for one in (await bench.source_status())["conditions"]}["Connected"]
    return f"{found['status']} {found['reason']}"


async def test_b11_a_token_that_ends_and_an_outage_touch_no_endpoint_and_pass(bench: Bench) -> None:
    engine = bench.serval.add_engine()
    await bench.make_source(tokenUrl=f"{bench.serval.url}/oauth/token")
    client = bench.serval.add_client()
    await bench.cluster.delete(ObjectRef(SECRETS, bench.namespace, "serval-key"))
    await bench.make_secret("serval-key", {"client-id": client.id, "client-secret": client.secret})
    await bench.start_operator()
    bench.serval.run_build(engine.id, bench.archive())
    await bench.until_serves(engine.id, 1)
    await bench.until_cursor(engine.id)
    await bench.settle()
    mark, asked = time.time(), len(bench.serval.requests("/oauth/token"))
    bench.serval.reject_tokens()

    def renewed() -> None:
        assert len(bench.serval.requests("/oauth/token")) == asked + 1

    await eventually(renewed, timeout=PATIENCE, describe=bench.describe)
    await consistently(renewed, for_=3.0, describe=bench.describe)
    outage = bench.serval.break_with(503)

    async def unreachable() -> None:
        assert await connected(bench) == "False ServalUnreachable"

    await eventually(unreachable, timeout=PATIENCE, describe=bench.describe)

    async def serves_on() -> None:
        await bench.serves(engine.id, 1)
        assert (await bench.condition(engine.id, "Available"))["status"] == "True"

    await consistently(serves_on, for_=case_seconds(300, 5.0), interval=0.2, describe=bench.describe)
    assert writes_of(bench.writes(since=mark), "inferenceservices") == []
    bench.serval.mend(outage)

    async def back() -> None:
        assert await connected(bench) == "True Connected"

    await eventually(back, timeout=10.0, describe=bench.describe)
    bench.serval.run_build(engine.id, bench.archive("second"))
    await bench.until_serves(engine.id, 2)
