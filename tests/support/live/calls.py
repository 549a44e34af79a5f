"""One call to an engine over KServe's v2 protocol, by REST or gRPC, as its status says that it is reached."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import grpc
import httpx
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services


@dataclass(frozen=True)
class Endpoint:
    """Where an engine answers: `status.serving` of its resource."""

    url: str
    model: str
    protocol: str = "rest"


WHOLE = {"split_sentences": False, "copy_untranslatable": False}
"""References are of whole verses, whatever sentences they have."""


@dataclass(frozen=True)
class Answer:
    """One answered call."""

    revision: int
    translation: str


class CallFailed(RuntimeError):
    """The call was not answered with a translation; the text says how."""


class RestConnection:
    """HTTP/1.1, kept alive between calls."""

    def __init__(self, endpoint: Endpoint, patience: float) -> None:
        self._endpoint = endpoint
        self._client = httpx.AsyncClient(timeout=patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def translate(self, text: str) -> Answer:
        """POST …/infer."""
        document = await self._post(f"v2/models/{self._endpoint.model}/infer", _body(text))
        outputs = {output["name"]: output["data"] for output in document["outputs"]}
        return Answer(int(document["model_version"]), outputs["translation"][0])

    async def predict(self, text: str) -> str:
        """The same over v1, which names no revision."""
        document = await self._post(
            f"v1/models/{self._endpoint.model}:predict",
            {"instances": [{"text": text}], "parameters": WHOLE},
        )
        return str(document["predictions"][0]["translation"])

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            response = await self._client.post(f"{self._endpoint.url}/{path}", json=body)
        except httpx.HTTPError as error:
            raise CallFailed(f"{type(error).__name__}: {error}") from error
        if response.status_code != 200:
            raise CallFailed(f"HTTP {response.status_code}: {response.text[:300]}")
        document: dict[str, Any] = response.json()
        return document


def _body(text: str) -> dict[str, Any]:
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}
    return {"inputs": [tensor], "parameters": WHOLE}


class GrpcConnection:
    """One HTTP/2 channel."""

    def __init__(self, endpoint: Endpoint, patience: float) -> None:
        parts = urlsplit(endpoint.url)
        self._endpoint = endpoint
        self._patience = patience
        self._channel = grpc.aio.insecure_channel(f"{parts.hostname}:{parts.port or 80}")
        self._stub = services.GRPCInferenceServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def translate(self, text: str) -> Answer:
        """ModelInfer."""
        tensor = messages.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1])
        tensor.contents.bytes_contents.append(text.encode())
        request = messages.ModelInferRequest(model_name=self._endpoint.model, inputs=[tensor])
        for name, value in WHOLE.items():
            request.parameters[name].bool_param = value
        try:
            response = await self._stub.ModelInfer(request, timeout=self._patience, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(f"{error.code().name}: {error.details()}") from error
        return Answer(int(response.model_version), _first(response))


def _first(response: Any) -> str:
    """The first translation, from typed or raw contents."""
    if response.raw_output_contents:
        raw: bytes = response.raw_output_contents[0]
        return raw[4 : 4 + int.from_bytes(raw[:4], "little")].decode()
    return bytes(response.outputs[0].contents.bytes_contents[0]).decode()


Connection = RestConnection | GrpcConnection


def connect(endpoint: Endpoint, patience: float) -> Connection:
    """A connection that waits `patience` seconds for each answer."""
    return (
        GrpcConnection(endpoint, patience)
        if endpoint.protocol == "grpc"
        else RestConnection(endpoint, patience)
    )
