"""One process, four clients: the same request has the same answer over v1, v2 JSON, v2 binary and gRPC."""

import asyncio
import gzip
import json
import struct
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    InferResponse,
    RESTConfig,
)
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb

from tests.integration.predictor.calls import SAME_BITS, TEXTS, body, columns, grpc_request
from tests.integration.predictor.conftest import ENGINE_ID, REVISION, SERVICE, references
from tests.support.predictor import Predictor


@pytest.fixture
def truth(any_pair_predictor: Predictor) -> tuple[list[str], list[float]]:
    """The answer over v2 JSON; its texts are checked against transformers elsewhere."""
    return columns(any_pair_predictor.infer(body(parameters=SAME_BITS)))


def test_v1_answers_what_v2_answers(
    any_pair_predictor: Predictor, truth: tuple[list[str], list[float]]
) -> None:
    for path in (":predict", "%3Apredict"):
        answer = httpx.post(
            f"{any_pair_predictor.url}/v1/models/{SERVICE}{path}",
            json={
                "instances": [{"text": text} for text in TEXTS],
                "outputs": ["translation", "score"],
                "parameters": SAME_BITS,
            },
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        rows = answer.json()["predictions"]
        assert ([row["translation"] for row in rows], [row["score"] for row in rows]) == truth


async def test_grpc_answers_what_v2_answers_with_typed_and_raw_contents(
    stub: Any, truth: tuple[list[str], list[float]]
) -> None:
    typed = await stub.ModelInfer(grpc_request(SERVICE))
    assert [text.decode() for text in typed.outputs[0].contents.bytes_contents] == truth[0]
    assert list(typed.outputs[1].contents.fp32_contents) == truth[1]
    assert (typed.id, typed.model_name, typed.model_version) == ("call-1", SERVICE, str(REVISION))
    packed = await stub.ModelInfer(grpc_request(SERVICE, raw=True))
    assert list(struct.unpack(f"<{len(TEXTS)}f", packed.raw_output_contents[1])) == truth[1]
    assert [list(output.shape) for output in packed.outputs] == [[len(TEXTS), 1]] * 2


async def test_kserves_own_clients_get_the_same_answer(
    any_pair_predictor: Predictor, truth: tuple[list[str], list[float]]
) -> None:
    values = InferInput("text", [len(TEXTS)], "BYTES")
    values.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=False)
    rest = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
    over_grpc = InferenceGRPCClient(any_pair_predictor.grpc_address)
    try:
        assert await rest.is_server_ready(any_pair_predictor.url)
        assert await rest.is_model_ready(any_pair_predictor.url, SERVICE)
        assert await over_grpc.is_server_ready()
        assert await over_grpc.is_model_ready(SERVICE)
        one = await rest.infer(any_pair_predictor.url, InferRequest(SERVICE, [values]), model_name=SERVICE)
        two = await over_grpc.infer(InferRequest(SERVICE, [values]))
    finally:
        await rest.close()
        await over_grpc.close()
    assert isinstance(one, InferResponse)
    for answer in (one, two):
        assert [output.name for output in answer.outputs] == ["translation"]
        assert list(answer.outputs[0].shape) == [len(TEXTS), 1]
        data = answer.outputs[0].data
        assert [each.decode() if isinstance(each, bytes) else each for each in data] == truth[0]


async def test_kserves_client_can_send_binary_tensors(
    any_pair_predictor: Predictor, truth: tuple[list[str], list[float]]
) -> None:
    values = InferInput("text", [len(TEXTS)], "BYTES")
    values.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=True)
    rest = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
    try:
        answer = await rest.infer(
            any_pair_predictor.url,
            InferRequest(SERVICE, [values], parameters={"binary_data_output": True}),
            model_name=SERVICE,
        )
    finally:
        await rest.close()
    assert isinstance(answer, InferResponse)
    data = answer.outputs[0].as_numpy().reshape(-1)
    assert [each.decode() if isinstance(each, bytes) else each for each in data] == truth[0]


def test_json_without_a_content_type_and_gzip_are_understood(
    any_pair_predictor: Predictor, truth: tuple[list[str], list[float]]
) -> None:
    url, data = (
        f"{any_pair_predictor.url}/v2/models/{SERVICE}/infer",
        json.dumps(body(parameters=SAME_BITS)).encode(),
    )
    for headers, content in (
        ({"content-type": "application/octet-stream"}, data),
        ({}, data),
        ({"content-encoding": "gzip"}, gzip.compress(data)),
    ):
        assert columns(httpx.post(url, content=content, headers=headers, timeout=60)) == truth


def test_blank_segments_return_as_they_are_and_neighbours_keep_their_place(
    truth: tuple[list[str], list[float]],
) -> None:
    texts, scores = truth
    assert (texts[1], texts[3]) == ("", TEXTS[3])
    assert (scores[1], scores[3]) == (0.0, 0.0)
    assert texts[0]
    assert texts[2]
    assert scores[0] < 0
    assert scores[2] < 0


def test_outputs_come_only_if_asked_for(any_pair_predictor: Predictor) -> None:
    def names(**changes: Any) -> list[str]:
        answer = any_pair_predictor.infer(body(["Light."], **changes))
        return [output["name"] for output in answer.json()["outputs"]]

    assert names(outputs=None) == ["translation"]
    assert names(outputs=[]) == ["translation"]
    assert names(outputs=[{"name": "score"}]) == ["score"]
    assert names(outputs=[{"name": "score"}, {"name": "translation"}]) == ["score", "translation"]


def test_the_engine_id_is_an_alias_and_other_names_are_told_both(any_pair_predictor: Predictor) -> None:
    for name in (SERVICE, ENGINE_ID):
        answer = httpx.post(
            f"{any_pair_predictor.url}/v2/models/{name}/infer", json=body(["Light."]), timeout=60
        )
        assert answer.json()["model_name"] == SERVICE
    for path in (
        "/v2/models/nllb/infer",
        "/v1/models/nllb:predict",
        f"/v2/models/{SERVICE}/versions/99/infer",
    ):
        answer = httpx.post(any_pair_predictor.url + path, json=body(["Light."]), timeout=60)
        assert answer.status_code == 404
        assert answer.json()["reason"] == "UnknownModel"
    answer = httpx.get(f"{any_pair_predictor.url}/v2/models/nllb")
    assert SERVICE in answer.json()["hint"]
    assert ENGINE_ID in answer.json()["hint"]


INPUTS = ["text", "source_language", "target_language", "target_prefix", "protected_terms"]
OUTPUTS = [
    ("translation", [-1, -1]),
    ("score", [-1, -1]),
    ("translation_result", [-1, -1]),
    ("word_graph", [-1, 1]),
    ("warnings", [-1, 1]),
    ("sentences", [-1, 1]),
    ("token_count", [-1, 2]),
    ("hypothesis_count", [-1]),
]


def test_metadata_names_words_revision_and_what_is_really_in_use(any_pair_predictor: Predictor) -> None:
    facts = httpx.get(f"{any_pair_predictor.url}/v2/models/{SERVICE}").json()
    assert (facts["name"], facts["versions"], facts["platform"]) == (SERVICE, [str(REVISION)], "ctranslate2")
    assert [each["name"] for each in facts["inputs"]] == INPUTS
    assert [(each["name"], each["shape"]) for each in facts["outputs"]] == OUTPUTS
    properties = facts["properties"]
    assert all(isinstance(value, str) for value in properties.values())
    expected = {
        "engineId": ENGINE_ID,
        "modelRevision": str(REVISION),
        "sourceLanguage": "eng_Latn",
        "targetLanguage": "spa_Latn",
        "tokenizerOrder": "code-first",
        "computeType": "float32",
        "device": "cpu",
    }
    assert expected.items() <= properties.items()
    assert set(json.loads(properties["phases"])) == {"python", "download", "load", "warm", "ready"}


async def test_grpc_metadata_says_what_rest_says(any_pair_predictor: Predictor, stub: Any) -> None:
    async with httpx.AsyncClient(base_url=any_pair_predictor.url) as client:
        facts = (await client.get(f"/v2/models/{SERVICE}")).json()
    call = stub.ModelMetadata(pb.ModelMetadataRequest(name=SERVICE))
    answer = await call
    trailing = dict(await call.trailing_metadata())
    assert json.loads(trailing["serval-live-properties-bin"]) == facts["properties"]
    assert (answer.name, list(answer.versions), answer.platform) == (SERVICE, [str(REVISION)], "ctranslate2")
    assert [(each.name, list(each.shape)) for each in answer.outputs] == OUTPUTS


def test_reflection_tells_of_the_methods_that_there_are_and_of_no_other(
    any_pair_predictor: Predictor,
) -> None:
    with grpc.insecure_channel(any_pair_predictor.grpc_address) as channel:
        told = ProtoReflectionDescriptorDatabase(channel)
        services = set(told.get_services())
        pool = descriptor_pool.DescriptorPool(told)
        methods = {name: pool.FindServiceByName(name).methods_by_name for name in services}
    assert set(methods["grpc.health.v1.Health"]) >= {"Check"}
    offered = methods["inference.GRPCInferenceService"]
    assert set(offered) == {
        *("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer"),
        *("ModelStatistics", "ModelConfig", "RepositoryIndex"),
    }
    assert [each.name for each in offered["ModelStatistics"].input_type.fields] == ["name", "version"]
    assert "inputs" in offered["ModelInfer"].input_type.fields_by_name


def test_a_trained_pair_is_answered_by_tag_and_code_and_another_pair_is_refused_by_name(
    pair_predictor: Predictor,
) -> None:
    def ask(source: str, target: str) -> httpx.Response:
        inputs = [
            {
                "name": "text",
                "datatype": "BYTES",
                "shape": [1, 1],
                "data": [["He went to the land of Moab."]],
            },
            {"name": "source_language", "datatype": "BYTES", "shape": [1], "data": [source]},
            {"name": "target_language", "datatype": "BYTES", "shape": [1, 1], "data": [[target]]},
        ]
        return pair_predictor.infer({"inputs": inputs})

    answers = {ask(*pair).text for pair in (("en", "es"), ("eng_Latn", "spa_Latn"), ("en-US", "es-MX"))}
    assert len({json.loads(text)["outputs"][0]["data"][0] for text in answers}) == 1
    refused = ask("es", "en")
    assert (refused.status_code, refused.json()["reason"]) == (400, "PairNotServed")
    assert "eng_Latn to spa_Latn" in refused.json()["error"]


def test_metrics_count_calls_by_outcome_and_tell_the_phases(pair_predictor: Predictor) -> None:
    pair_predictor.infer(body(["Light."]))
    pair_predictor.infer(body(["Light."], parameters={"beam_size": 99}))
    lines = httpx.get(pair_predictor.url + "/metrics").text.splitlines()
    numbers = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(numbers['serval_live_requests_total{outcome="OK",protocol="v2"}']) >= 1
    assert float(numbers['serval_live_requests_total{outcome="BadRequest",protocol="v2"}']) >= 1
    assert float(numbers["serval_live_ready"]) == 1
    assert float(numbers['serval_live_phase_seconds{phase="load"}']) > 0


async def test_liveness_is_answered_many_times_while_long_calls_run(any_pair_predictor: Predictor) -> None:
    """Counted and not timed, since the machine is shared: a blocked loop answers once or twice, when a call is done."""
    texts = [verse.source for verse in references("greedy") if verse.source_language == "eng_Latn"]
    request = body(texts[:40], outputs=[{"name": "translation_result"}], parameters={"timeout_ms": 300_000})
    path = f"/v2/models/{SERVICE}/infer"
    async with (
        httpx.AsyncClient(base_url=any_pair_predictor.url, timeout=None) as busy,
        httpx.AsyncClient(base_url=any_pair_predictor.url, timeout=None) as probe,
    ):
        work = [asyncio.create_task(busy.post(path, json=request)) for _ in range(2)]
        answered = 0
        while not any(call.done() for call in work):
            for page in ("live", "ready"):
                assert (await probe.get(f"/v2/health/{page}")).status_code == 200
            answered += 1
        assert {(await call).status_code for call in work} == {200}
    assert answered >= 10


async def test_concurrent_callers_get_their_own_answers(any_pair_predictor: Predictor) -> None:
    verses = references("greedy")
    short = sorted(verses, key=lambda verse: len(verse.source))[:16]
    calls = [
        {
            "id": f"call-{number}",
            "inputs": [
                {"name": name, "datatype": "BYTES", "shape": [1], "data": [value]}
                for name, value in (
                    ("text", verse.source),
                    ("source_language", verse.source_language),
                    ("target_language", verse.target_language),
                )
            ],
            "outputs": [{"name": "translation"}, {"name": "score"}],
            "parameters": {"beam_size": 1 + number % 3, "timeout_ms": 120_000},
        }
        for number, verse in enumerate(short)
    ]
    assert len({verse.target_language for verse in short}) == 2
    async with httpx.AsyncClient(base_url=any_pair_predictor.url, timeout=120) as client:
        path = f"/v2/models/{SERVICE}/infer"
        alone = [(await client.post(path, json=call)).json() for call in calls]
        together = await asyncio.gather(*(client.post(path, json=call) for call in calls))
    for call, wanted, answer in zip(calls, alone, together, strict=True):
        found = answer.json()
        assert "outputs" in wanted, wanted
        assert found.get("id") == call["id"], found
        assert found["outputs"][0] == wanted["outputs"][0]
        assert found["outputs"][1]["data"] == pytest.approx(wanted["outputs"][1]["data"], abs=1e-4)


async def test_the_health_service_that_knative_asks_says_serving(any_pair_predictor: Predictor) -> None:
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
