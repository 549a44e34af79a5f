"""One call to an engine over KServe's v2 protocol, by REST or gRPC, as its status says that it is reached.

A connection looks its host up once, by `names`, and then speaks to the address: a name server that is too busy to
answer is then told apart from a service that does not.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import grpc
import httpx
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

from tests.support.live.names import Names, NotResolved


@dataclass(frozen=True)
class Endpoint:
    """Where an engine answers: `status.serving` of its resource."""

    url: str
    model: str
    protocol: str = "rest"

    @property
    def host(self) -> str:
        """The name that is looked up."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """Its port; cluster-local addresses are plain HTTP."""
        return urlsplit(self.url).port or 80


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

    def __init__(self, endpoint: Endpoint, patience: float, names: Names) -> None:
        self._endpoint = endpoint
        self._names = names
        self._patience = patience
        self._address = ""
        # No certificate is ever checked on plain HTTP; reading the authorities for each connection costs more than
        # the call.
        self._client = httpx.AsyncClient(timeout=patience, verify=False, trust_env=False)

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
        host, port = self._endpoint.host, self._endpoint.port
        self._address = self._address or await _look_up(self._names, host, self._patience)
        url = f"http://{self._address}:{port}/{path}"
        try:
            response = await self._client.post(url, json=body, headers={"Host": host})
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

    def __init__(self, endpoint: Endpoint, patience: float, names: Names) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._names = names
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def translate(self, text: str) -> Answer:
        """ModelInfer."""
        stub = services.GRPCInferenceServiceStub(await self._open())
        tensor = messages.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1])
        tensor.contents.bytes_contents.append(text.encode())
        request = messages.ModelInferRequest(model_name=self._endpoint.model, inputs=[tensor])
        for name, value in WHOLE.items():
            request.parameters[name].bool_param = value
        try:
            response = await stub.ModelInfer(request, timeout=self._patience, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(f"{error.code().name}: {error.details()}") from error
        return Answer(int(response.model_version), _first(response))

    async def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            host, port = self._endpoint.host, self._endpoint.port
            address = await _look_up(self._names, host, self._patience)
            named = [("grpc.default_authority", host)]
            self._channel = grpc.aio.insecure_channel(f"{address}:{port}", options=named)
        return self._channel


async def _look_up(names: Names, host: str, patience: float) -> str:
    try:
        return await names.address(host, patience)
    except NotResolved as error:
        raise CallFailed(str(error)) from error


def _first(response: Any) -> str:
    """The first translation, from typed or raw contents."""
    if response.raw_output_contents:
        raw: bytes = response.raw_output_contents[0]
        return raw[4 : 4 + int.from_bytes(raw[:4], "little")].decode()
    return bytes(response.outputs[0].contents.bytes_contents[0]).decode()


Connection = RestConnection | GrpcConnection


def connect(endpoint: Endpoint, patience: float, names: Names | None = None) -> Connection:
    """A connection that waits `patience` seconds for each answer; `names` counts what its look-ups met."""
    kind = GrpcConnection if endpoint.protocol == "grpc" else RestConnection
    return kind(endpoint, patience, names or Names())
