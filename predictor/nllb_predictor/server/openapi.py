"""The OpenAPI document of the REST interface, made of the contract's JSON Schemas.

OpenAPI 3.1 speaks JSON Schema, so the words of a call stand in one place and are what requests and answers are tested
against. Only paths, statuses and the small answers are written here. Not described: the binary-tensor extension, which
no generator understands, and the statistics that only Triton's clients ask for.
"""

import json
from functools import cache
from typing import Any

from nllb_predictor.server.faults import INTERNAL, TABLE
from nllb_predictor.version import package_version
from serval_live_contract import SchemaName, schema

Json = dict[str, Any]

PREFIX = "#/components/schemas/"

TEXTS: Json = {"type": "array", "items": {"type": "string"}}

PREDICT_FIELDS = {
    "text": "Segment to translate.",
    "source_language": "Code or tag; absent: the engine's own.",
    "target_language": "Code or tag; absent: the engine's own.",
    "target_prefix": "The translation begins with exactly these characters.",
}


@cache
def document() -> bytes:
    """The whole document as JSON."""
    paths = {
        "/v2/health/live": {"get": _get("isLive", "Whether the process runs.", "Live")},
        "/v2/health/ready": {"get": _get("isReady", "Whether the model is proven and answers.", "Ready")},
        "/v2": {"get": _get("serverMetadata", "Name, version and extensions.", "ServerMetadata")},
        "/v2/models": {"get": _get("listModels", "Names that are served.", "Models")},
        "/v2/models/{name}": {
            "get": _get("modelMetadata", "Words, versions and properties.", "ModelMetadata", named=True)
        },
        "/v2/models/{name}/ready": {
            "get": _get("modelReady", "Whether this model answers.", "ModelReady", named=True)
        },
        "/v2/models/{name}/infer": {
            "post": _post("translate", "Translate segments.", "InferRequest", "InferResponse")
        },
        "/v1/models/{name}:predict": {
            "post": _post("predict", "The same in KServe's v1 form.", "PredictRequest", "PredictResponse")
        },
    }
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "serval-live predictor",
            "version": package_version(),
            "description": "One NLLB engine over KServe v1 and v2. gRPC carries the same words.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {"schemas": _schemas()},
    }
    return json.dumps(whole, ensure_ascii=False).encode()


def _get(operation: str, summary: str, answer: str, *, named: bool = False) -> Json:
    statuses = (404, 503) if named else (503,)
    return _operation(operation, summary, answer, statuses) | ({"parameters": [_name()]} if named else {})


def _post(operation: str, summary: str, body: str, answer: str) -> Json:
    statuses = sorted({each.status for each in TABLE.values()} | {INTERNAL.status})
    content = {"application/json": {"schema": {"$ref": PREFIX + body}}}
    return _operation(operation, summary, answer, tuple(statuses)) | {
        "parameters": [_name()],
        "requestBody": {"required": True, "content": content},
    }


def _operation(operation: str, summary: str, answer: str, statuses: tuple[int, ...]) -> Json:
    responses = {"200": _response("Done.", answer)}
    reasons: dict[int, list[str]] = {}
    for kind, row in TABLE.items():
        reasons.setdefault(row.status, []).append(kind.reason)
    for status in statuses:
        words = ", ".join(sorted(set(reasons.get(status, ["Internal"]))))
        responses[str(status)] = _response(f"Refused: {words}.", "Error")
    return {"operationId": operation, "summary": summary, "responses": responses}


def _response(description: str, answer: str) -> Json:
    content = {"application/json": {"schema": {"$ref": PREFIX + answer}}}
    return {"description": description, "content": content}


def _name() -> Json:
    return {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "v2 name of the model, or its engine id.",
        "schema": {"type": "string", "minLength": 1},
    }


def _schemas() -> Json:
    text = {"type": "string"}
    return {
        **_moved("v2-request", "InferRequest"),
        **_moved("v2-response", "InferResponse"),
        **_moved("error", "Error"),
        "Live": _object({"live": {"type": "boolean"}}),
        "Ready": _object({"ready": {"type": "boolean"}}),
        "ModelReady": _object({"name": text, "ready": {"type": "boolean"}}),
        "Models": _object({"models": TEXTS}),
        "ServerMetadata": _object({"name": text, "version": text, "extensions": TEXTS}),
        "TensorMetadata": _object(
            {"name": text, "datatype": text, "shape": {"type": "array", "items": {"type": "integer"}}}
        ),
        "ModelMetadata": _object(
            {
                "name": text,
                "versions": TEXTS,
                "platform": text,
                "inputs": {"type": "array", "items": {"$ref": PREFIX + "TensorMetadata"}},
                "outputs": {"type": "array", "items": {"$ref": PREFIX + "TensorMetadata"}},
                "properties": {"type": "object", "additionalProperties": text},
            }
        ),
        "PredictRequest": _predict_request(),
        "PredictResponse": _object({"predictions": {"type": "array", "items": {"type": "object"}}}),
    }


def _predict_request() -> Json:
    fields = {name: {"type": "string", "description": words} for name, words in PREDICT_FIELDS.items()}
    instance = {"type": "object", "required": ["text"], "properties": fields, "additionalProperties": False}
    call = schema("v2-request")["properties"]
    return {
        "type": "object",
        "required": ["instances"],
        "properties": {
            "instances": {"type": "array", "items": {"anyOf": [instance, {"type": "string"}]}},
            "protected_terms": {**TEXTS, "type": ["array", "null"]},
            "outputs": {"type": ["array", "null"], "items": call["outputs"]["items"]["properties"]["name"]},
            "parameters": call["parameters"],
        },
    }


def _object(properties: Json) -> Json:
    return {"type": "object", "required": list(properties), "properties": properties}


def _moved(name: SchemaName, title: str) -> Json:
    """A schema of the contract and its definitions as components of their own."""
    whole = schema(name)
    parts = {f"{title}_{key}": value for key, value in whole.pop("$defs", {}).items()}
    for key in ("$schema", "$id"):
        whole.pop(key, None)
    moved: Json = _renamed({title: whole, **parts}, title)
    return moved


def _renamed(value: Any, title: str) -> Any:
    """References to definitions, where they now are. Shapes become plain lists of numbers: generators make types of
    tuples that no caller can fulfil."""
    if isinstance(value, list):
        return [_renamed(each, title) for each in value]
    if not isinstance(value, dict):
        return value
    if "prefixItems" in value:
        value = {key: each for key, each in value.items() if key != "prefixItems"} | {
            "items": {"type": "integer"}
        }
    return {
        key: f"{PREFIX}{title}_{each.rpartition('/')[2]}"
        if key == "$ref" and isinstance(each, str)
        else _renamed(each, title)
        for key, each in value.items()
    }
