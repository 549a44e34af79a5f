"""Triton's own clients against a predictor, in a process of their own: their messages collide with kserve's in one.

`python triton_client.py REST_ADDRESS GRPC_ADDRESS MODEL TEXT…` prints one JSON object: what each call was answered.
Runs in the environment of `triton_python`, which has nothing but these clients.
"""

import json
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http


def texts_of(result: Any) -> list[str]:
    values = result.as_numpy("translation").reshape(-1)
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


def http_answers(address: str, model: str, values: Any) -> dict[str, Any]:
    client = over_http.InferenceServerClient(address, network_timeout=120, connection_timeout=120)
    found: dict[str, Any] = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready() and client.is_model_ready(model),
        "server": client.get_server_metadata()["name"],
        "metadata": [each["name"] for each in client.get_model_metadata(model)["inputs"]],
        "config": [each["name"] for each in client.get_model_config(model)["input"]],
        "stats": client.get_inference_statistics(model)["model_stats"][0]["name"],
        "index": [each["name"] for each in client.get_model_repository_index()],
    }
    for binary_in in (False, True):
        for binary_out in (False, True):
            text = over_http.InferInput("text", list(values.shape), "BYTES")
            text.set_data_from_numpy(values, binary_data=binary_in)
            output = over_http.InferRequestedOutput("translation", binary_data=binary_out)
            for packing in (None, "gzip", "deflate"):
                answer = client.infer(
                    model,
                    [text],
                    outputs=[output],
                    request_compression_algorithm=packing,
                    response_compression_algorithm=packing,
                )
                found[f"infer in={binary_in} out={binary_out} {packing}"] = texts_of(answer)
    return found


def grpc_answers(address: str, model: str, values: Any) -> dict[str, Any]:
    client = over_grpc.InferenceServerClient(address)
    text = over_grpc.InferInput("text", list(values.shape), "BYTES")
    text.set_data_from_numpy(values)
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready() and client.is_model_ready(model),
        "server": client.get_server_metadata().name,
        "metadata": [each.name for each in client.get_model_metadata(model).inputs],
        "config": [each.name for each in client.get_model_config(model).config.input],
        "stats": client.get_inference_statistics(model).model_stats[0].name,
        "index": [each.name for each in client.get_model_repository_index().models],
        "infer": texts_of(client.infer(model, [text])),
        "infer gzip": texts_of(client.infer(model, [text], compression_algorithm="gzip")),
    }


if __name__ == "__main__":
    rest, grpc, name, *texts = sys.argv[1:]
    sent = np.array(texts, dtype=object)
    print(json.dumps({"http": http_answers(rest, name, sent), "grpc": grpc_answers(grpc, name, sent)}))
