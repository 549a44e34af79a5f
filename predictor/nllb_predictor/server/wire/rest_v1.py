"""KServe v1: `{"instances": […]}` to the same call that v2 makes, and answers to `{"predictions": […]}`.

An instance is an object with the words of v2 (`text`, `source_language`, `target_language`, `target_prefix`) or just
the text. `protected_terms`, `outputs` and `parameters` beside `instances` mean what they mean in v2. An output of one
value per segment is that value; one of several hypotheses is a list where more than one was asked for.
"""

from typing import Any

import orjson

from nllb_predictor.errors import BadRequest
from nllb_predictor.server.wire.contract import HYPOTHESES, ROW_INPUTS, TERMS, TEXT, require_known
from nllb_predictor.server.wire.outputs import OUTPUTS
from nllb_predictor.server.wire.rest_v2 import json_object, parameters_of
from nllb_predictor.server.wire.tensors import InferCall, OutputAsk, Tensor

OUTPUT_SHAPES = {spec.name: spec.shape for spec in OUTPUTS}


def decode(body: bytes) -> tuple[InferCall, dict[str, tuple[str | None, ...]]]:
    """The call, and by input name the value of each instance, None where it has none."""
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
    given = {spec.name: tuple(row.get(spec.name) for row in rows) for spec in ROW_INPUTS}
    text = Tensor(TEXT.name, TEXT.datatype, (len(texts),), texts)
    terms = _strings(value.get(TERMS.name), TERMS.name)
    inputs = (text, Tensor(TERMS.name, TERMS.datatype, (len(terms),), terms)) if terms else (text,)
    asks = tuple(OutputAsk(name) for name in _strings(value.get("outputs"), "outputs"))
    return InferCall(inputs, asks, parameters_of(value.get("parameters"))), given


def _row(instance: Any, index: int) -> dict[str, str]:
    if isinstance(instance, str):
        return {TEXT.name: instance}
    where = f"instances[{index}]"
    if not isinstance(instance, dict):
        raise BadRequest("An instance must be an object or a string.", field=where)
    for name, each in instance.items():
        require_known(name, [spec.name for spec in (TEXT, *ROW_INPUTS)], "input")
        if not isinstance(each, str):
            raise BadRequest(f"Must be a string, not {type(each).__name__}.", field=f"{where}.{name}")
    if TEXT.name not in instance:
        raise BadRequest("The text is missing.", field=f"{where}.{TEXT.name}")
    return instance


def _strings(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest("Must be a list of strings.", field=field)
    return tuple(value)


def encode(outputs: tuple[Tensor, ...], call: InferCall) -> bytes:
    """One object per instance, with the outputs that were asked for."""
    several = call.parameters.get(HYPOTHESES, 1) != 1
    count = outputs[0].shape[0] if outputs else 0
    rows = [{tensor.name: _cells(tensor, index, several) for tensor in outputs} for index in range(count)]
    return orjson.dumps({"predictions": rows})


def _cells(tensor: Tensor, index: int, several: bool) -> Any:
    """The values of one instance: a list where there are several by request or by the tensor's kind."""
    if len(tensor.shape) == 1:
        return tensor.data[index]
    width = tensor.shape[1]
    cells = tensor.data[index * width : (index + 1) * width]
    table = OUTPUT_SHAPES[tensor.name][1]
    return list(cells) if table > 1 or (table == -1 and several) else cells[0]
