"""KServe v2 over gRPC: ModelInferRequest to InferCall and back, with raw and with typed contents.

An answer comes in the form of its request: raw bytes for raw bytes. Both forms in one request are refused, since
which one counts would be a guess.
"""

import itertools
from typing import Any

from nllb_predictor.errors import BadRequest
from nllb_predictor.server.sdk import messages
from nllb_predictor.server.wire.tensors import (
    InferAnswer,
    InferCall,
    OutputAsk,
    Parameter,
    Tensor,
    decode_text,
    join_raw,
    split_raw,
)

CONTENTS = {"BYTES": "bytes_contents", "FP32": "fp32_contents", "INT32": "int_contents"}


def decode(request: Any) -> InferCall:
    """The call in a ModelInferRequest."""
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise BadRequest(
            f"There are {len(request.inputs)} inputs and {len(raw)} raw contents.", field="raw_input_contents"
        )
    pairs = itertools.zip_longest(request.inputs, raw)
    tensors = tuple(_tensor(tensor, content) for tensor, content in pairs)
    asks = tuple(OutputAsk(output.name) for output in request.outputs)
    return InferCall(tensors, asks, _parameters(request.parameters), request.id, bool(raw))


def _tensor(tensor: Any, raw: bytes | None) -> Tensor:
    filled = [field.name for field, _ in tensor.contents.ListFields()]
    if raw is not None and filled:
        raise BadRequest(
            "The input has both raw and typed contents.", field=tensor.name, hint="Send one of the two forms."
        )
    if tensor.datatype != "BYTES":
        raise BadRequest(f"The datatype must be BYTES, not {tensor.datatype or 'empty'}.", field=tensor.name)
    if raw is not None:
        data = split_raw(raw, tensor.name)
    elif [name for name in filled if name != "bytes_contents"]:
        raise BadRequest(f"Text belongs into bytes_contents, not {filled[0]}.", field=tensor.name)
    else:
        data = tuple(decode_text(each, tensor.name) for each in tensor.contents.bytes_contents)
    return Tensor(tensor.name, tensor.datatype, tuple(tensor.shape), data).checked()


def _parameters(parameters: Any) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        kind = parameter.WhichOneof("parameter_choice")
        if kind is None:
            raise BadRequest("The parameter has no value.", field=name[:60])
        found[name] = getattr(parameter, kind)
    return found


def encode(answer: InferAnswer, raw: bool) -> Any:
    """A ModelInferResponse."""
    response = messages.ModelInferResponse(
        model_name=answer.model, model_version=answer.version, id=answer.id
    )
    for tensor in answer.outputs:
        output = response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if raw:
            response.raw_output_contents.append(join_raw(tensor))
            continue
        values = [str(v).encode("utf-8") for v in tensor.data] if tensor.datatype == "BYTES" else tensor.data
        getattr(output.contents, CONTENTS[tensor.datatype]).extend(values)
    return response
