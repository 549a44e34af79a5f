"""Variables that would change whose model a predictor serves, or with whose keys, are refused by the API server."""

import pytest

from engine_operator.errors import Rejected
from tests.integration.operator.bench import ENGINES, Bench

ALLOWED = (
    "SERVAL_LIVE_INTRA_THREADS",
    "SERVAL_LIVE_COMPUTE_TYPE",
    "SERVAL_LIVE_LOG_LEVEL",
    "OMP_NUM_THREADS",
)
REFUSED = {
    "AWS_ACCESS_KEY_ID": "artifactStore's to name",
    "AWS_ENDPOINT_URL_S3": "artifactStore's to name",
    "STORAGE_URI": "KServe's initializer",
    "SERVAL_LIVE_MODEL_URI": "yours to tune are SERVAL_LIVE_INTER_THREADS",
    "SERVAL_LIVE_S3_ENDPOINT": "yours to tune are SERVAL_LIVE_INTER_THREADS",
    "SERVAL_LIVE_INTRA_THREAD": "yours to tune are SERVAL_LIVE_INTER_THREADS",
}


async def test_only_tuning_variables_are_accepted(bench: Bench) -> None:
    async def create(name: str, variable: str) -> None:
        spec = {
            "source": {"servalSource": "ruth", "engineId": "66c4a1f09d3e5b7a8c0f1e21"},
            "serving": {"env": [{"name": variable, "value": "1"}]},
        }
        await bench.cluster.create(
            ENGINES, {"metadata": {"name": name, "namespace": bench.namespace}, "spec": spec}
        )

    for number, variable in enumerate(ALLOWED):
        await create(f"good-{number}", variable)
    for number, (variable, told) in enumerate(REFUSED.items()):
        with pytest.raises(Rejected, match=told):
            await create(f"bad-{number}", variable)
    assert len(await bench.all(ENGINES)) == len(ALLOWED)
