"""The trained tiny model, converted once per run, and two processes that serve it."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

from nllb_predictor.convert.manifest import Identity, Options, Quantization
from nllb_predictor.convert.run import Converted, Request, Surroundings, convert
from tests.support.predictor import ROOT, Predictor, start_predictor

DATA = Path(os.environ.get("SERVAL_LIVE_TEST_DATA") or ROOT / "tests" / "data")
ENGINE_ID = "66c4a1f09d3e5b7a8c0f1e21"
REVISION = 3
SERVICE = "e" + ENGINE_ID


@dataclass(frozen=True)
class Reference:
    """One held-out verse as transformers translates it; see tests/data/references/meta.json."""

    id: str
    source_language: str
    target_language: str
    source: str
    output_ids: tuple[int, ...]
    text: str
    score: float


def references(name: str) -> list[Reference]:
    """All verses of one search, in both directions."""
    lines = (DATA / "references" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        record = json.loads(line)
        fields = {key: record[key] for key in Reference.__dataclass_fields__}
        found.append(Reference(**fields | {"output_ids": tuple(record["output_ids"])}))
    return found


def _convert(tmp_path_factory: pytest.TempPathFactory, quantization: Quantization) -> Converted:
    folder = tmp_path_factory.mktemp("model")
    options = Options(quantization)
    return convert(
        Request(str(DATA / "tiny-nllb"), str(folder / "model"), options, Identity(ENGINE_ID, REVISION)),
        Surroundings(folder),
    )


@pytest.fixture(scope="session")
def float32_model(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return _convert(tmp_path_factory, Quantization.FLOAT32)


@pytest.fixture(scope="session")
def int8_model(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return _convert(tmp_path_factory, Quantization.INT8)


@pytest.fixture(scope="session")
def any_pair_predictor(
    tmp_path_factory: pytest.TempPathFactory, float32_model: Converted
) -> Iterator[Predictor]:
    """float32, every pair allowed, so that both directions of the held-out verses can be asked."""
    predictor = start_predictor(
        tmp_path_factory.mktemp("any-pair"),
        float32_model.uri,
        [
            "--model-name",
            SERVICE,
            "--engine-id",
            ENGINE_ID,
            "--model-revision",
            str(REVISION),
            # One batch at a time: a call is then always the same batch, and has the same scores to the bit.
            "--inter-threads",
            "1",
            "--allow-any-pair",
        ],
    )
    try:
        yield predictor.wait_ready()
    finally:
        predictor.stop()


@pytest.fixture(scope="session")
def pair_predictor(tmp_path_factory: pytest.TempPathFactory, int8_model: Converted) -> Iterator[Predictor]:
    """int8, as an operator starts it: one pair, manifest pinned, everything by environment."""
    predictor = start_predictor(
        tmp_path_factory.mktemp("pair"),
        int8_model.uri,
        environment={
            "SERVAL_LIVE_ENGINE_ID": ENGINE_ID,
            "SERVAL_LIVE_MODEL_REVISION": str(REVISION),
            "SERVAL_LIVE_MANIFEST_SHA256": int8_model.manifest_sha256,
            "SERVAL_LIVE_ATTEMPT": "2",
        },
    )
    predictor.name = ENGINE_ID
    try:
        yield predictor.wait_ready()
    finally:
        predictor.stop()


@pytest.fixture
async def stub(any_pair_predictor: Predictor) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        yield services.GRPCInferenceServiceStub(channel)
