"""The predictor's words against the documents that its callers and the operator read by."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nllb_predictor import errors
from nllb_predictor.pipeline.request import Wants
from nllb_predictor.server.faults import INTERNAL, TABLE, fault_of
from nllb_predictor.server.wire import contract, outputs, rest_v2
from nllb_predictor.server.wire.tensors import InferAnswer, Tensor
from nllb_predictor.settings import ServeSettings
from serval_live_contract import SchemaName, process_reasons, request_reasons, schema

DEFAULTS = contract.Defaults.of(ServeSettings())
TEXT = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["Light."]}
CALLS: dict[str, tuple[dict[str, Any], bool]] = {
    "the least": ({"inputs": [TEXT]}, True),
    "everything": (
        {
            "id": "1",
            "inputs": [
                TEXT,
                {"name": "target_language", "datatype": "BYTES", "shape": [1, 1], "data": [["es"]]},
                {"name": "target_prefix", "datatype": "BYTES", "shape": [1], "data": ["Hoy"]},
                {"name": "protected_terms", "datatype": "BYTES", "shape": [2], "data": ["Acme", "Bo"]},
            ],
            "outputs": [{"name": "score"}, {"name": "translation"}, {"name": "word_graph"}],
            "parameters": {
                "beam_size": 2,
                "num_hypotheses": 2,
                "timeout_ms": 1000,
                "split_sentences": False,
                "lines": "join",
                "copy_untranslatable": False,
                "deterministic": True,
                "priority": "bulk",
                "binary_data_output": False,
            },
        },
        True,
    ),
    "no text": ({"inputs": [{**TEXT, "name": "source_language"}]}, False),
    "text twice": ({"inputs": [TEXT, TEXT]}, False),
    "unknown input": ({"inputs": [TEXT, {**TEXT, "name": "target_langauge"}]}, False),
    "unknown output": ({"inputs": [TEXT], "outputs": [{"name": "translations"}]}, False),
    "unknown parameter": ({"inputs": [TEXT], "parameters": {"beam": 2}}, False),
    "no beams": ({"inputs": [TEXT], "parameters": {"beam_size": 0}}, False),
    "beams in words": ({"inputs": [TEXT], "parameters": {"beam_size": "2"}}, False),
    "no hypotheses": ({"inputs": [TEXT], "parameters": {"num_hypotheses": 0}}, False),
    "an unknown priority": ({"inputs": [TEXT], "parameters": {"priority": "high"}}, False),
    "a number for a flag": ({"inputs": [TEXT], "parameters": {"deterministic": 1}}, False),
    "wide": ({"inputs": [{**TEXT, "shape": [1, 2]}]}, False),
    "numbers": ({"inputs": [{**TEXT, "datatype": "FP32", "data": [1.0]}]}, False),
    "no inputs": ({}, False),
}


def follows(name: SchemaName, document: object) -> bool:
    return bool(Draft202012Validator(schema(name)).is_valid(document))


def family(kind: type[errors.PredictorError]) -> Iterator[type[errors.PredictorError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


def accepted(document: dict[str, Any]) -> bool:
    try:
        call = rest_v2.decode(json.dumps(document).encode(), {})
        contract.request_of(call, DEFAULTS, Wants())
        outputs.asked_outputs(call.outputs)
    except errors.BadRequest:
        return False
    return True


@pytest.mark.parametrize("name", CALLS)
def test_the_server_and_the_schema_accept_the_same_calls(name: str) -> None:
    document, good = CALLS[name]
    assert (accepted(document), follows("v2-request", document)) == (good, good)


def test_the_schema_lists_the_words_that_the_metadata_promises() -> None:
    properties = schema("v2-request")["properties"]
    words = properties["inputs"]["items"]["properties"]["name"]["enum"]
    assert words == [spec.name for spec in contract.INPUTS]
    words = properties["outputs"]["items"]["properties"]["name"]["enum"]
    assert words == [spec.name for spec in outputs.OUTPUTS]
    assert set(properties["parameters"]["properties"]) == {
        *contract.PARAMETERS,
        *contract.PROTOCOL_PARAMETERS,
    }


def test_an_answer_follows_its_schema() -> None:
    outputs = (
        Tensor("translation", "BYTES", (2, 1), ("Luz.", "Día.")),
        Tensor("score", "FP32", (2, 1), (-0.5, -0.25)),
        Tensor("warnings", "BYTES", (2, 1), ("[]", "[]")),
        Tensor("token_count", "INT32", (2, 2), (4, 5, 4, 6)),
        Tensor("hypothesis_count", "INT32", (2,), (1, 1)),
    )
    body, _ = rest_v2.encode(InferAnswer("e1", "3", "call-1", outputs), ())
    document = json.loads(body)
    assert follows("v2-response", document)
    document["outputs"][0]["datatype"] = "FP32"
    assert not follows("v2-response", document)


@pytest.mark.parametrize("kind", [*TABLE, ValueError])
def test_every_refusal_follows_the_schema_of_an_error(kind: type[Exception]) -> None:
    body = fault_of(kind("A sentence.")).body()
    assert follows("error", body)
    assert not follows("error", {**body, "reason": "Oops"})


def test_the_document_has_the_reasons_of_requests_with_their_codes() -> None:
    ours = {(kind.reason, row.status, row.code) for kind, row in TABLE.items()}
    ours.add((errors.PredictorError.reason, INTERNAL.status, INTERNAL.code))
    assert {(each.reason, each.http, each.grpc) for each in request_reasons()} == ours
    assert {each.reason for each in request_reasons()} == set(schema("error")["properties"]["reason"]["enum"])


def test_the_document_has_the_reasons_of_termination_lines_with_their_exit_codes() -> None:
    ours = {
        (kind.reason, kind.exit_code)
        for kind in family(errors.PredictorError)
        if "reason" in vars(kind) and not issubclass(kind, errors.RequestError)
    }
    assert {(each.reason, each.exit_code) for each in process_reasons()} == ours


def test_no_reason_that_may_pass_is_called_final() -> None:
    retryable = {kind.reason for kind in family(errors.PredictorError) if kind.retryable}
    assert not retryable & {each.reason for each in process_reasons() if each.final}
