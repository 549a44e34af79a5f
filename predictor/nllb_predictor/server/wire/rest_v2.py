"""KServe v2 over HTTP: JSON bodies, with or without the binary-tensor extension, to InferCall; answers to bytes.

A body is judged by what it is, not by its content type, since common clients send JSON without one. Nothing here
raises anything but BadRequest and PayloadTooLarge.
"""

import re
import zlib
from collections.abc import Mapping
from typing import Any

import orjson

from nllb_predictor.errors import BadRequest, PayloadTooLarge
from nllb_predictor.server.wire.tensors import (
    InferAnswer,
    InferCall,
    OutputAsk,
    Parameter,
    Tensor,
    Value,
    join_raw,
    split_raw,
)

JSON_LENGTH = "inference-header-content-length"
"""Header of the binary extension: how many bytes of the body are JSON."""

DIGITS = re.compile(r"[0-9]{1,18}")
"""Python reads no number of thousands of digits."""

BINARY_SIZE = "binary_data_size"
BINARY_OUTPUT = "binary_data_output"
BINARY_DATA = "binary_data"


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content encoding. Raises PayloadTooLarge where it unpacks to more than `limit` bytes."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "deflate"):
        raise BadRequest(
            f"The content encoding '{name[:40]}' is not understood.", hint="Send gzip, deflate or none."
        )
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadRequest(f"The body is not {name}: {error}.") from None
    if len(plain) > limit:
        raise PayloadTooLarge(
            f"The body unpacks to more than {limit} bytes.", hint="The setting is --max-message-bytes."
        )
    if not unpacker.eof:
        raise BadRequest(f"The {name} body ends early.")
    return plain


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises BadRequest. The strict parser also refuses lone surrogates, which no text
    has and which nothing after it could encode."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"The body is not JSON: {str(error)[:120]}.") from None
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    return value


def decode(body: bytes, headers: Mapping[str, str]) -> InferCall:
    """The call in a request's body."""
    text, binary = _parts(body, headers.get(JSON_LENGTH, ""))
    value = json_object(text)
    inputs = value.get("inputs")
    if not isinstance(inputs, list):
        raise BadRequest("Must be a list of tensors.", field="inputs")
    parameters = parameters_of(value.get("parameters"))
    tensors: list[Tensor] = []
    raw = False
    for item in inputs:
        tensor, taken = _tensor(item, binary)
        raw = raw or taken is not None
        binary = binary[taken or 0 :]
        tensors.append(tensor)
    if binary:
        raise BadRequest(f"{len(binary)} bytes follow the last binary tensor.", hint=f"Check {BINARY_SIZE}.")
    asks = _asks(value.get("outputs"), parameters.get(BINARY_OUTPUT) is True)
    return InferCall(tuple(tensors), asks, parameters, _id(value.get("id")), raw)


def _parts(body: bytes, header: str) -> tuple[bytes, bytes]:
    """JSON and binary part of a body."""
    if not header:
        return body, b""
    if not DIGITS.fullmatch(header) or int(header) > len(body):
        raise BadRequest(
            f"The header {JSON_LENGTH} says {header[:20]}, the body has {len(body)} bytes.",
            hint="It counts the bytes of the JSON before the binary data.",
        )
    return body[: int(header)], body[int(header) :]


def _id(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest("Must be a string.", field="id")
    return value


def parameters_of(value: Any) -> dict[str, Parameter]:
    """Parameters of a request: an object of numbers, strings and booleans. Raises BadRequest."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("Must be an object.", field="parameters")
    for name, each in value.items():
        if not isinstance(each, bool | int | float | str):
            raise BadRequest("Must be a number, a string or a boolean.", field=name[:60])
    return value


def _asks(value: Any, binary: bool) -> tuple[OutputAsk, ...]:
    if value is None:
        return (OutputAsk("translation", True),) if binary else ()
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadRequest('Must be a list of objects with a "name".', field="outputs")
    asks = []
    for each in value:
        if not isinstance(each.get("name"), str):
            raise BadRequest('An output lacks its "name".', field="outputs")
        wanted = parameters_of(each.get("parameters")).get(BINARY_DATA, binary)
        asks.append(OutputAsk(each["name"], wanted is True))
    return tuple(asks)


def _tensor(item: Any, binary: bytes) -> tuple[Tensor, int | None]:
    """One input, and how many bytes of the binary part it took."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise BadRequest('Each input must be an object with a "name".', field="inputs")
    name, datatype, shape = item["name"], item.get("datatype"), item.get("shape")
    if not isinstance(datatype, str):
        raise BadRequest('The "datatype" is missing.', field=name, hint="Text is BYTES.")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise BadRequest('The "shape" must be a list of whole numbers.', field=name)
    size = parameters_of(item.get("parameters")).get(BINARY_SIZE)
    if size is None:
        return Tensor(name, datatype, tuple(shape), _flat(item, name)).checked(), None
    if "data" in item:
        raise BadRequest("The tensor has both binary and JSON data.", field=name)
    if type(size) is not int or not 0 <= size <= len(binary):
        raise BadRequest(f"{BINARY_SIZE} is {size!r:.30}, {len(binary)} bytes are left.", field=name)
    if datatype != "BYTES":
        raise BadRequest(f"The datatype must be BYTES, not {datatype}.", field=name)
    return Tensor(name, datatype, tuple(shape), split_raw(binary[:size], name)).checked(), size


def _flat(item: dict[str, Any], name: str) -> tuple[Value, ...]:
    """Elements of a list, nested or flat alike."""
    data = item.get("data")
    if not isinstance(data, list):
        hint = f'Write "data": ["{data[:40]}"].' if isinstance(data, str) else ""
        raise BadRequest('The "data" must be a list.', field=name, hint=hint)
    elements: list[Value] = []
    for each in data:
        row = each if isinstance(each, list) else [each]
        for value in row:
            if not isinstance(value, str):
                raise BadRequest(f"Elements must be strings, not {type(value).__name__}.", field=name)
            elements.append(value)
    return tuple(elements)


def encode(answer: InferAnswer, asks: tuple[OutputAsk, ...]) -> tuple[bytes, dict[str, str]]:
    """Body and headers of an answer; outputs that were asked for in binary follow the JSON."""
    binary_names = {ask.name for ask in asks if ask.binary}
    outputs: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for tensor in answer.outputs:
        entry: dict[str, Any] = {
            "name": tensor.name,
            "shape": list(tensor.shape),
            "datatype": tensor.datatype,
        }
        if tensor.name in binary_names:
            chunks.append(join_raw(tensor))
            entry["parameters"] = {BINARY_SIZE: len(chunks[-1])}
        else:
            entry["data"] = list(tensor.data)
        outputs.append(entry)
    value = {"model_name": answer.model, "model_version": answer.version, "id": answer.id, "outputs": outputs}
    text = orjson.dumps(value)
    if not chunks:
        return text, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", JSON_LENGTH: str(len(text))}
    return text + b"".join(chunks), headers
