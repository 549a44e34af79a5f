"""One translation call, as each protocol writes it."""

import struct
from typing import Any

import httpx
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb

TEXTS = [
    "In the beginning God created the heavens and the earth.",
    "",
    "He went to the land of Moab.",
    " \u3000\n",
]


SAME_BITS = {"deterministic": True}
"""Batches differ from call to call, and scores in the seventh digit with them: for answers that must be equal."""


def body(texts: list[str] = TEXTS, **changes: Any) -> dict[str, Any]:
    text = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    return {"inputs": [text], "outputs": [{"name": "translation"}, {"name": "score"}], **changes}


def columns(answer: httpx.Response) -> tuple[list[str], list[float]]:
    assert answer.status_code == 200, answer.text
    outputs = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    return outputs["translation"], outputs["score"]


def grpc_request(name: str, texts: list[str] = TEXTS, raw: bool = False) -> Any:
    request = pb.ModelInferRequest(model_name=name, id="call-1")
    for parameter, value in SAME_BITS.items():
        request.parameters[parameter].bool_param = value
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    encoded = [text.encode() for text in texts]
    if raw:
        request.raw_input_contents.append(b"".join(struct.pack("<I", len(each)) + each for each in encoded))
    else:
        tensor.contents.bytes_contents.extend(encoded)
    for output in ("translation", "score"):
        request.outputs.add(name=output)
    return request
