"""KServe v1: `{"instances": […]}` to the same call that v2 makes, and answers to `{"predictions": […]}`.

An instance is an object with the words of v2 (`text`, `source_language`, `target_language`) or just the text.
`outputs` and `parameters` beside `instances` mean what they mean in v2.
"""

from typing import Any

import orjson

from nllb_predictor.errors import BadRequest
from nllb_predictor.server.wire.contract import INPUTS, TEXT, require_known
from nllb_predictor.server.wire.rest_v2 import json_object, parameters_of
from nllb_predictor.server.wire.tensors import InferCall, OutputAsk, Tensor


def decode(body: bytes) -> tuple[InferCall, dict[str, tuple[str | None, ...]]]:
    """The call, and the languages of each instance by input name, None where an instance names none."""
    value = json_object(body)
    instances = value.get("instances")
    if not isinstance(instances, list):
        raise BadRequest(
            "Must be a list.",
            field="instances",
            hint='Write {"instances": [{"text": "…"}]}; a single object is no list.',
        )
    rows = [_row(instance, index) for index, instance in enumerate(instances)]
    texts = tuple(row[TEXT.name] for row in rows)
    given = {
        spec.name: tuple(row.get(spec.name) for row in rows) for spec in INPUTS if spec.name != TEXT.name
    }
    text = Tensor(TEXT.name, TEXT.datatype, (len(texts),), texts)
    return InferCall((text,), _asks(value.get("outputs")), parameters_of(value.get("parameters"))), given


def _row(instance: Any, index: int) -> dict[str, str]:
    if isinstance(instance, str):
        return {TEXT.name: instance}
    where = f"instances[{index}]"
    if not isinstance(instance, dict):
        raise BadRequest("An instance must be an object or a string.", field=where)
    for name, each in instance.items():
        require_known(name, [spec.name for spec in INPUTS], "input")
        if not isinstance(each, str):
            raise BadRequest(f"Must be a string, not {type(each).__name__}.", field=f"{where}.{name}")
    if TEXT.name not in instance:
        raise BadRequest("The text is missing.", field=f"{where}.{TEXT.name}")
    return instance


def _asks(value: Any) -> tuple[OutputAsk, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise BadRequest("Must be a list of names.", field="outputs")
    return tuple(OutputAsk(name) for name in value)


def encode(outputs: tuple[Tensor, ...]) -> bytes:
    """One object per instance, with the outputs that were asked for."""
    columns = {tensor.name: tensor.data for tensor in outputs}
    count = outputs[0].shape[0] if outputs else 0
    rows = [{name: data[index] for name, data in columns.items()} for index in range(count)]
    return orjson.dumps({"predictions": rows})
