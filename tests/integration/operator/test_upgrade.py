"""From the first version that ran to this one, with engines that serve: none of them is written to, none restarts.

`tests/data/upgrade/first-version.tar.xz` holds that version's packages and chart as they were committed
(`git archive 69d3581`): what it applies, and what it remembers of it, is its own doing.
"""

import tarfile
import time
from pathlib import Path

from engine_operator.cluster.resources import Json, Resource
from tests.integration.operator.bench import INFERENCE_SERVICES, Bench, writes_of

FIRST = Path(__file__).parents[2] / "data" / "upgrade" / "first-version.tar.xz"
ACCOUNT = "serval-live-workload"
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NEW_IMAGE = "dev.local/predictor@sha256:2"


def first_version(folder: Path) -> list[Path]:
    """Folders of the first version's packages."""
    with tarfile.open(FIRST) as archive:
        archive.extractall(folder, filter="data")
    return [folder / "operator", folder / "contract"]


async def predictor_of(bench: Bench, engine_id: str) -> Json:
    service = await bench.find(INFERENCE_SERVICES, f"e{engine_id}")
    assert service is not None
    predictor: Json = service["spec"]["predictor"]
    return predictor


async def test_engines_of_the_first_version_serve_on_untouched_and_get_the_new_with_their_next_build(
    bench: Bench, tmp_path: Path
) -> None:
    engines = [bench.serval.add_engine() for _ in range(2)]
    await bench.make_source()
    old = await bench.start_operator(code=first_version(tmp_path / "first"))
    for engine in engines:
        bench.serval.run_build(engine.id, bench.archive())
    pods = []
    for engine in engines:
        status = await bench.until_serves(engine.id, 1)
        pods += await bench.pods_of(status["serving"]["knativeRevision"])
    assert len(pods) == len(engines)
    await bench.settle()
    assert "serviceAccountName" not in await predictor_of(bench, engines[0].id), "that version knew none"
    await old.stop()

    mark = time.time()
    await bench.cluster.create(ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": bench.namespace}})
    await bench.start_operator(
        runtime_image_cpu=NEW_IMAGE, converter_image=NEW_IMAGE, workload_service_account=ACCOUNT
    )
    await bench.until_leads()
    await bench.settle(4.0)
    assert writes_of(bench.writes(since=mark), "inferenceservices") == []
    assert writes_of(bench.writes(since=mark), "jobs") == [], "nothing is converted again"
    assert len(bench.simulator.knative.created) == len(engines)
    for engine in engines:
        status = await bench.serves(engine.id, 1)
        now = await bench.pods_of(status["serving"]["knativeRevision"])
        assert {pod["metadata"]["uid"] for pod in now} <= {pod["metadata"]["uid"] for pod in pods}

    bench.serval.run_build(engines[0].id, bench.archive("second"))
    await bench.until_serves(engines[0].id, 2)
    new = await predictor_of(bench, engines[0].id)
    assert (new["serviceAccountName"], new["containers"][0]["image"]) == (ACCOUNT, NEW_IMAGE)
    assert "serviceAccountName" not in await predictor_of(bench, engines[1].id)
