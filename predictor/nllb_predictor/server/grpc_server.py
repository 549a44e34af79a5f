"""gRPC: our own server on the SDK's messages.

The SDK's server cannot be used: it runs calls on an unready model, and several of its errors reach the caller as
UNKNOWN. Here one interceptor wraps every method, those that other servicers add later too, and tells each error with
the code and words of `faults`.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from nllb_predictor.errors import BadRequest, PayloadTooLarge
from nllb_predictor.server.faults import fault_of
from nllb_predictor.server.model import LARGE, Asked, TruthfulDataPlane, computed
from nllb_predictor.server.sdk import messages, services
from nllb_predictor.server.wire import grpc as wire
from nllb_predictor.server.wire.extensions import METHODS, filled, message, reflected
from nllb_predictor.server.wire.tensors import REQUEST_ID, caller, request_id
from nllb_predictor.settings import ServeSettings

DESCRIPTOR = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE = DESCRIPTOR.full_name
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

OWN_WORDS = 4
"""Requests up to so many times the limit are read, so that they can be refused in words that name the setting."""

NOT_OFFERED = frozenset({"RepositoryModelLoad", "RepositoryModelUnload"})
"""Methods that the SDK's servicer has and this server has not: one process, one model."""


def _not_offered(method: str) -> Any:
    """A handler that answers UNIMPLEMENTED, and says what there is instead."""

    async def refuse(request: Any, context: Any) -> None:
        del request
        words = (
            f"Unimplemented: there is no method {method[:200]}; server reflection lists those that there are."
        )
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, words)

    return grpc.unary_unary_rpc_method_handler(refuse)


class FaultInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Every error of a unary method as status, message and trailing metadata; a method that is not there by name."""

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        name = handler_call_details.method
        if handler is None or name.rpartition("/")[2] in NOT_OFFERED:
            return _not_offered(name)
        if handler.unary_unary is None:
            return handler
        method = handler.unary_unary

        async def told(request: Any, context: Any) -> Any:
            try:
                if isinstance(request, BadRequest):
                    raise request
                return await method(request, context)
            except Exception as error:
                if isinstance(error, grpc.aio.AbortError):
                    raise
                fault = fault_of(error)
                await context.abort(grpc.StatusCode[fault.code], fault.details(), fault.metadata())

        return grpc.unary_unary_rpc_method_handler(
            told,
            request_deserializer=handler.request_deserializer and _read(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )


def _read(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Bytes that are no message become a BadRequest for the method to raise: gRPC itself would log a traceback and tell
    the caller UNKNOWN."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return BadRequest(f"The request is not a message of this method: {error}.")

    return read


class HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """grpc.health.v1: what Kubernetes and Knative ask where only the gRPC port can be probed; without `Watch`."""

    def __init__(self, plane: TruthfulDataPlane) -> None:
        self._plane = plane

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """SERVING exactly when ServerReady says ready, for whatever service is named: one process, one model."""
        status = health_pb2.HealthCheckResponse.ServingStatus
        ready = await self._plane.ready()
        return health_pb2.HealthCheckResponse(status=status.SERVING if ready else status.NOT_SERVING)


class InferenceServicer(services.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """The methods of inference.GRPCInferenceService. Loading and unloading are not offered: one process, one model."""

    def __init__(self, plane: TruthfulDataPlane, max_bytes: int) -> None:
        self._plane = plane
        self._max_bytes = max_bytes

    async def ServerLive(self, request: Any, context: Any) -> Any:  # noqa: N802
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return messages.ServerReadyResponse(ready=await self._plane.ready())

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._plane.require(request.name, request.version)
        return messages.ModelReadyResponse(ready=await self._plane.model_ready(request.name))

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        facts = self._plane.metadata()
        return messages.ServerMetadataResponse(
            name=facts["name"], version=facts["version"], extensions=facts["extensions"]
        )

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The message has no place for properties; they travel as trailing metadata, in JSON."""
        self._plane.require(request.name, request.version)
        facts = await self._plane.model_metadata(request.name)
        context.set_trailing_metadata(
            (("serval-live-properties-bin", json.dumps(facts["properties"]).encode()),)
        )
        return messages.ModelMetadataResponse(
            name=facts["name"],
            versions=facts["versions"],
            platform=facts["platform"],
            inputs=facts["inputs"],
            outputs=facts["outputs"],
        )

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        metadata = dict(context.invocation_metadata())
        name = request_id(metadata)
        await context.send_initial_metadata(((REQUEST_ID, name),))
        with self._plane.calls.watched("grpc", name, metadata) as seen:
            bounded(request, "request", self._max_bytes)
            self._plane.require(request.model_name, request.model_version)
            call = await computed(request.ByteSize() > LARGE, lambda: wire.decode(request))
            call = replace(call, caller=caller(metadata))
            answered = await self._plane.translate(request.model_name, Asked(call), seen)
            response = await computed(answered.large, lambda: wire.encode(answered.answer, call.raw))
            return bounded(response, "answer", self._max_bytes)


class Extensions:
    """Triton's statistics, configuration and repository index, for which the SDK has no messages."""

    def __init__(self, plane: TruthfulDataPlane) -> None:
        self._plane = plane

    async def statistics(self, request: Any, context: Any) -> Any:
        return filled("ModelStatisticsResponse", {"model_stats": self._plane.statistics(request.name)})

    async def configuration(self, request: Any, context: Any) -> Any:
        self._plane.require(request.name, request.version)
        return filled("ModelConfigResponse", {"config": self._plane.configuration(request.name)})

    async def index(self, request: Any, context: Any) -> Any:
        return filled("RepositoryIndexResponse", {"models": self._plane.index(request.ready)})

    def handler(self) -> Any:
        """Handlers beside those of the SDK's servicer, under the same service name."""
        methods = dict(zip(METHODS, (self.statistics, self.configuration, self.index), strict=True))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=message(f"{name}Request").FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
            for name, method in methods.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, handlers)


def bounded(content: Any, what: str, limit: int) -> Any:
    """The message, if it is within the limit. Raises PayloadTooLarge, in the words that REST uses."""
    size = content.ByteSize()
    if size > limit:
        raise PayloadTooLarge(
            f"The {what} has {size} bytes, more than {limit}.",
            hint="Send fewer segments per call, or raise --max-message-bytes.",
        )
    return content


def make_server(plane: TruthfulDataPlane, settings: ServeSettings) -> Any:
    """A gRPC server with its methods, not listening yet."""
    server = grpc.aio.server(
        interceptors=(FaultInterceptor(),),
        options=[
            ("grpc.max_send_message_length", -1),
            # Beyond this gRPC refuses in its own words, before any method hears of the call; up to this we do.
            ("grpc.max_receive_message_length", OWN_WORDS * settings.max_message_bytes),
            # Two processes on one port would each get half of the calls, unnoticed.
            ("grpc.so_reuseport", 0),
        ],
    )
    servicer = InferenceServicer(plane, settings.max_message_bytes)
    services.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    server.add_generic_rpc_handlers((Extensions(plane).handler(),))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(plane), server)
    # So that grpcurl and its kin need no copy of the proto file.
    pool = reflected(DESCRIPTOR, NOT_OFFERED, (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR))
    names = (SERVICE, HEALTH, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=pool)
    return server
