"""`check`, `plan` and `doctor`, as a person calls them: what they say, and that they change nothing."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from tests.integration.operator.bench import ENGINES, JOBS, PATIENCE, Bench
from tests.support.serval import EngineSpec, EngineType
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


async def call(bench: Bench, *arguments: str) -> Said:
    """Run `engine-operator`."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(bench.plane.kubeconfig),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SERVAL_LIVE_OPERATOR_CONVERTER_IMAGE": "dev.local/predictor@sha256:1",
        "SERVAL_LIVE_OPERATOR_RUNTIME_IMAGE_CPU": "dev.local/predictor@sha256:1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "engine_operator",
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


async def test_check_lists_every_engine_with_its_verdict_before_anything_is_installed(bench: Bench) -> None:
    good = bench.serval.add_engine(EngineSpec(revision=3, name="team:ruth:1", target="kmr-Latn"))
    lost = bench.serval.add_engine(EngineSpec(persisted=None, revision=3))
    smt = bench.serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    bench.serval.add_engine(EngineSpec(owner="naomi", revision=1))
    key = bench.folder / "key"
    key.write_text(bench.key + "\n")
    base = ("check", "--url", bench.serval.url, "--api-key-file", str(key))

    said = await call(bench, *base, "--output", "json")
    assert said.code == 0, said.err
    rows = {row["engineId"]: row for row in json.loads(said.out)}
    assert {one: row["reason"] for one, row in rows.items()} == {
        good.id: None,
        lost.id: "ModelNotPersisted",
        smt.id: "EngineTypeUnsupported",
    }
    text = (await call(bench, *base)).out
    assert "1 of 3 engines can be served." in text
    assert "isModelPersisted" in text

    bench.serval.delete_engine(good.id)
    assert (await call(bench, *base)).code == 1, "nothing can be served"
    key.write_text("serval_wrong")
    refused = await call(bench, *base)
    assert refused.code == 3
    assert "CredentialsRefused" in refused.err
    bench.serval.down()
    assert "ServalUnreachable" in (await call(bench, *base)).err
    assert (await call(bench, "check", "--url", "http://x", "--api-key-file", "/nowhere")).code == 2


async def test_plan_says_what_a_sweep_would_do_and_touches_nothing(bench: Bench) -> None:
    first, second = bench.serval.add_engine(), bench.serval.add_engine()
    await bench.make_source()
    operator = await bench.start_operator()
    bench.serval.run_build(first.id, bench.archive())
    await bench.until_serves(first.id, 1)
    await bench.settle()
    await operator.stop()
    bench.serval.run_build(first.id, bench.archive("again"))
    bench.serval.run_build(second.id, bench.archive())
    before, objects = len(bench.writes()), bench.objects("")

    said = await call(bench, "plan", "--namespace", bench.namespace, "--output", "json")
    assert said.code == 0, said.err
    planned = {
        (one["kind"], one["name"]): [a["action"] for a in one["actions"]] for one in json.loads(said.out)
    }
    assert planned["ServalSource", "ruth"] == ["ApplyEngine"]
    assert planned["TranslationEngine", f"e{first.id}"][:2] == ["DeleteJob", "StartConversion"]
    text = await call(bench, "plan", "--namespace", bench.namespace)
    assert f"engine=e{second.id}" in text.out
    assert len(bench.writes()) == before
    assert bench.objects("") == objects
    assert len(await bench.all(ENGINES)) == 1
    assert len(await bench.all(JOBS)) == 1


async def test_doctor_names_what_is_missing_and_is_content_when_nothing_is(bench: Bench) -> None:
    await bench.make_source()
    good = await call(bench, "doctor", "--namespace", bench.namespace)
    assert good.code == 0, good.out + good.err
    assert "Serval answers with 0 engines" in good.out
    await bench.make_secret("store", {"AWS_ACCESS_KEY_ID": "x"})
    await bench.make_secret("serval-key", {"apikey": bench.key})
    bad = await call(bench, "doctor", "--namespace", bench.namespace)
    assert bad.code == 1
    assert "Secret 'store' lacks the key AWS_SECRET_ACCESS_KEY" in bad.out
    assert "'apikey'" in bad.out
    assert "2 problems" in bad.out


async def test_an_engine_of_a_source_that_does_not_exist_says_so(bench: Bench) -> None:
    body = {
        "metadata": {"name": "lost", "namespace": bench.namespace},
        "spec": {"source": {"servalSource": "nobody", "engineId": "66c4a1f09d3e5b7a8c0f1e21"}},
    }
    await bench.cluster.create(ENGINES, body)
    await bench.start_operator()

    async def told() -> None:
        found = await bench.find(ENGINES, "lost")
        assert found is not None
        conditions = {one["type"]: one for one in found["status"]["conditions"]}
        assert conditions["Degraded"]["reason"] == "SourceUnknown"
        assert "'nobody'" in conditions["Degraded"]["message"]

    await eventually(told, timeout=PATIENCE, describe=bench.describe, retry_on=(KeyError,))
