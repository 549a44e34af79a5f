"""Calls that cannot be answered: the same words over both protocols, and never an internal error."""

import asyncio
from typing import Any

import grpc
import httpx
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb

from tests.integration.predictor.calls import body, grpc_request
from tests.integration.predictor.conftest import SERVICE
from tests.support.predictor import Predictor

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
    "too long": (["word " * 3000], {}, {"split_sentences": False}, [1], "TextTooLong", "text"),
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
        kind = "bool_param" if isinstance(value, bool) else "int64_param"
        setattr(request.parameters[name], kind, value)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for words in (told["error"], told["reason"], told["field"], told.get("hint", "")):
        assert words in (refused.value.details() or "")


def test_the_limit_is_named_with_the_tokens_of_a_text_that_is_too_long(any_pair_predictor: Predictor) -> None:
    whole = {"parameters": {"split_sentences": False}}
    answer = any_pair_predictor.infer(body(["Light.", "word " * 3000]) | whole)
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
    ["RepositoryModelLoad", "RepositoryModelUnload", "SystemSharedMemoryStatus", "TraceSetting"],
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


def test_a_path_or_method_that_does_not_exist_has_a_typed_body(any_pair_predictor: Predictor) -> None:
    assert httpx.get(any_pair_predictor.url + "/v3").status_code == 404
    assert httpx.get(any_pair_predictor.url + "/v3").json()["reason"] == "UnknownModel"
    wrong = httpx.get(any_pair_predictor.url + f"/v2/models/{SERVICE}/infer")
    assert (wrong.status_code, wrong.json()["reason"]) == (405, "BadRequest")


async def test_a_name_that_no_metadata_can_hold_is_refused_in_words(stub: Any) -> None:
    request = grpc_request(SERVICE)
    request.inputs.add(name="täxt\n", datatype="BYTES", shape=[0])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "täxt" in (refused.value.details() or "")


async def test_a_name_of_a_megabyte_is_refused_in_words(stub: Any) -> None:
    request = grpc_request(SERVICE)
    request.inputs.add(name="täxt" * 250_000, datatype="ö" * 250_000, shape=[0])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("method", ["ModelInfer", "ModelReady", "ModelStatistics"])
async def test_bytes_that_are_no_message_are_a_bad_request(
    any_pair_predictor: Predictor, method: str
) -> None:
    async with grpc.aio.insecure_channel(any_pair_predictor.grpc_address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(f"/inference.GRPCInferenceService/{method}")(b"\x0a\x02\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
