"""One process, four clients: the same request has the same answer over v1, v2 JSON, v2 binary and gRPC, and the same
mistake the same words."""

import asyncio
import contextlib
import gzip
import json
import struct
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    InferResponse,
    RESTConfig,
)
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

from tests.integration.predictor.conftest import ENGINE_ID, REVISION, SERVICE, references
from tests.support.predictor import Predictor

TEXTS = [
    "In the beginning God created the heavens and the earth.",
    "",
    "He went to the land of Moab.",
    " \u3000\n",
]


def body(texts: list[str] = TEXTS, **changes: Any) -> dict[str, Any]:
    text = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    return {"inputs": [text], "outputs": [{"name": "translation"}, {"name": "score"}], **changes}


def columns(answer: httpx.Response) -> tuple[list[str], list[float]]:
    assert answer.status_code == 200, answer.text
    outputs = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    return outputs["translation"], outputs["score"]


@pytest.fixture
def truth(any_pair_predictor: Predictor) -> tuple[list[str], list[float]]:
    """The answer over v2 JSON; its texts are checked against transformers elsewhere."""
    return columns(any_pair_predictor.infer(body()))


@pytest.fixture
async def stub(any_pair_predictor: Predictor) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        yield services.GRPCInferenceServiceStub(channel)


def grpc_request(name: str, texts: list[str] = TEXTS, raw: bool = False) -> Any:
    request = pb.ModelInferRequest(model_name=name, id="call-1")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    encoded = [text.encode() for text in texts]
    if raw:
        request.raw_input_contents.append(b"".join(struct.pack("<I", len(each)) + each for each in encoded))
    else:
        tensor.contents.bytes_contents.extend(encoded)
    for output in ("translation", "score"):
        request.outputs.add(name=output)
    return request


def test_v1_answers_what_v2_answers(
    any_pair_predictor: Predictor, truth: tuple[list[str], list[float]]
) -> None:
    for path in (":predict", "%3Apredict"):
        answer = httpx.post(
            f"{any_pair_predictor.url}/v1/models/{SERVICE}{path}",
            json={"instances": [{"text": text} for text in TEXTS], "outputs": ["translation", "score"]},
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
    url, data = f"{any_pair_predictor.url}/v2/models/{SERVICE}/infer", json.dumps(body()).encode()
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


def test_metadata_names_words_revision_and_what_is_really_in_use(any_pair_predictor: Predictor) -> None:
    facts = httpx.get(f"{any_pair_predictor.url}/v2/models/{SERVICE}").json()
    assert (facts["name"], facts["versions"], facts["platform"]) == (SERVICE, [str(REVISION)], "ctranslate2")
    assert [each["name"] for each in facts["inputs"]] == ["text", "source_language", "target_language"]
    assert [(each["name"], each["shape"]) for each in facts["outputs"]] == [
        ("translation", [-1, 1]),
        ("score", [-1, 1]),
    ]
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
    assert [(each.name, list(each.shape)) for each in answer.outputs] == [
        ("translation", [-1, 1]),
        ("score", [-1, 1]),
    ]


MISTAKES: dict[str, tuple[list[str], dict[str, list[str]], dict[str, int], list[int], str, str]] = {
    "shape is a byte length": (["Light falls"], {}, {}, [11], "BadRequest", "text"),
    "wide shape": (["a", "b"], {}, {}, [1, 2], "BadRequest", "text"),
    "unknown language": (
        ["Light."],
        {"target_language": ["spa_Latin"]},
        {},
        [1],
        "UnknownLanguage",
        "target_language",
    ),
    "empty language": (["Light."], {"source_language": [""]}, {}, [1], "UnknownLanguage", "source_language"),
    "two languages, three texts": (
        ["a", "b", "c"],
        {"target_language": ["es", "en"]},
        {},
        [3],
        "BadRequest",
        "target_language",
    ),
    "too many beams": (["Light."], {}, {"beam_size": 99}, [1], "BadRequest", "beam_size"),
    "unknown parameter": (["Light."], {}, {"beam": 2}, [1], "BadRequest", "beam"),
    "too long": (["word " * 3000], {}, {}, [1], "TextTooLong", "text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_has_the_same_words_over_rest_and_grpc_and_is_never_internal(
    any_pair_predictor: Predictor, stub: Any, mistake: str
) -> None:
    texts, languages, parameters, shape, reason, field = MISTAKES[mistake]
    inputs: list[dict[str, Any]] = [{"name": "text", "datatype": "BYTES", "shape": shape, "data": texts}]
    inputs += [
        {"name": name, "datatype": "BYTES", "shape": [len(tags)], "data": tags}
        for name, tags in languages.items()
    ]
    answer = await asyncio.to_thread(any_pair_predictor.infer, {"inputs": inputs, "parameters": parameters})
    told = answer.json()
    assert (answer.status_code, told["reason"], told["field"]) == (400, reason, field)
    request = pb.ModelInferRequest(model_name=SERVICE)
    for each in inputs:
        tensor = request.inputs.add(name=each["name"], datatype="BYTES", shape=each["shape"])
        tensor.contents.bytes_contents.extend(text.encode() for text in each["data"])
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for words in (told["error"], told["reason"], told["field"], told.get("hint", "")):
        assert words in (refused.value.details() or "")


def test_the_limit_is_named_with_the_tokens_of_a_text_that_is_too_long(any_pair_predictor: Predictor) -> None:
    answer = any_pair_predictor.infer(body(["Light.", "word " * 3000]))
    assert answer.status_code == 400
    assert "Segment 1 has " in answer.json()["error"]
    assert "1024" in answer.json()["error"]


def test_a_body_beyond_the_limit_is_refused_with_the_settings_name(any_pair_predictor: Predictor) -> None:
    answer = any_pair_predictor.infer(body(["x" * (17 * 1024 * 1024)]))
    assert answer.status_code == 413
    assert "--max-message-bytes" in answer.json()["hint"]


async def test_a_grpc_message_beyond_the_limit_is_refused(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ModelInfer(grpc_request(SERVICE, ["x" * (17 * 1024 * 1024)]))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_nine_megabytes_pass_over_both_protocols(any_pair_predictor: Predictor, stub: Any) -> None:
    texts = [" " * (9 * 1024 * 1024), "Light."]
    answer = await asyncio.to_thread(any_pair_predictor.infer, body(texts, outputs=[{"name": "score"}]))
    assert answer.status_code == 200
    request = grpc_request(SERVICE, texts)
    del request.outputs[0]
    scores = list((await stub.ModelInfer(request)).outputs[0].contents.fp32_contents)
    assert scores == answer.json()["outputs"][0]["data"]


async def test_an_unknown_model_is_not_found_over_grpc(stub: Any) -> None:
    for call in (
        stub.ModelInfer(grpc_request("nllb")),
        stub.ModelReady(pb.ModelReadyRequest(name="nllb")),
        stub.ModelMetadata(pb.ModelMetadataRequest(name="nllb")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert SERVICE in (refused.value.details() or "")


@pytest.mark.parametrize(
    "method",
    ["ModelStatistics", "ModelConfig", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"],
)
async def test_a_grpc_method_that_is_not_offered_is_unimplemented_by_name(
    any_pair_predictor: Predictor, method: str
) -> None:
    """A request of no fields is a valid one of every message."""
    path = f"/inference.GRPCInferenceService/{method}"
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(path)(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert path in (refused.value.details() or "")


async def test_grpc_clients_can_ask_for_the_services_and_their_messages(
    any_pair_predictor: Predictor,
) -> None:
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        question = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="inference.GRPCInferenceService"
        )
        answers = [answer async for answer in stub.ServerReflectionInfo(iter([question]))]
    assert len(answers) == 1
    assert any(
        b"ModelInferRequest" in file for file in answers[0].file_descriptor_response.file_descriptor_proto
    )


def test_a_path_or_method_that_does_not_exist_has_a_typed_body(any_pair_predictor: Predictor) -> None:
    assert httpx.get(any_pair_predictor.url + "/v3").status_code == 404
    assert httpx.get(any_pair_predictor.url + "/v3").json()["reason"] == "UnknownModel"
    wrong = httpx.get(any_pair_predictor.url + f"/v2/models/{SERVICE}/infer")
    assert (wrong.status_code, wrong.json()["reason"]) == (405, "BadRequest")


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


async def test_liveness_answers_while_the_engine_is_full(any_pair_predictor: Predictor) -> None:
    """The bound is generous since the machine is shared; a blocked loop would answer only after the translations."""
    stop = threading.Event()
    texts = [verse.source for verse in references("greedy") if verse.source_language == "eng_Latn"]
    request = body(texts[:32])

    async def load(client: httpx.AsyncClient) -> None:
        while not stop.is_set():
            await client.post(f"/v2/models/{SERVICE}/infer", json=request)

    async with (
        httpx.AsyncClient(base_url=any_pair_predictor.url, timeout=120) as busy,
        httpx.AsyncClient(base_url=any_pair_predictor.url, timeout=2) as probe,
    ):
        work = [asyncio.create_task(load(busy)) for _ in range(4)]
        try:
            for _ in range(20):
                assert (await probe.get("/v2/health/live")).status_code == 200
                assert (await probe.get("/v2/health/ready")).status_code == 200
        finally:
            stop.set()
            for task in work:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*work)


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
