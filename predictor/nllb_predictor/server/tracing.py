"""Traces for OpenTelemetry: one span for each call, its stages as children, sent by OTLP over HTTP.

Off unless `--trace-endpoint` names a collector; the SDK is imported only then, from the extra `serval-live[tracing]`. A
span has numbers, names of ours and the request's id, never what is translated. The caller's own trace goes on: its
context comes in the W3C headers `traceparent` and `tracestate`, over gRPC in metadata entries of the same names.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nllb_predictor.errors import UsageError
from nllb_predictor.settings import ServeSettings
from nllb_predictor.stages import Facts, Stage
from nllb_predictor.version import package_version

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

HEADERS = ("traceparent", "tracestate")

LAST_SECONDS = 2.0
"""How long the end of the process waits for a collector to take the last spans."""

NANO = 1_000_000_000


@dataclass(frozen=True)
class CallTrace:
    """The span of one call."""

    span: "Span"
    _tracer: "Tracer"
    _context: Any
    _epoch: int
    """Nanoseconds from the zero of `time.monotonic` to that of the calendar's clock."""

    @property
    def id(self) -> str:
        """The trace's id, by which its log lines are found."""
        return f"{self.span.get_span_context().trace_id:032x}"

    def stage(self, stage: Stage, started: float, ended: float, facts: Facts) -> None:
        """A child span; a `stages.Listener`."""
        child = self._tracer.start_span(
            stage.value, self._context, attributes=dict(facts), start_time=self._at(started)
        )
        child.end(self._at(ended))

    def end(self, outcome: str, ok: bool, segments: int) -> None:
        """The call is answered, or refused for a reason."""
        from opentelemetry.trace import StatusCode

        self.span.set_attributes({"outcome": outcome, "segments": segments})
        if not ok:
            self.span.set_status(StatusCode.ERROR, outcome)
        self.span.end()

    def _at(self, seconds: float) -> int:
        return int(seconds * NANO) + self._epoch


class Traces:
    """Makes the spans of calls and hands them to a provider, which sends them."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("nllb_predictor", package_version())
        self._reader = TraceContextTextMapPropagator()

    @classmethod
    def of(cls, settings: ServeSettings) -> "Traces | None":
        """None where they are off. Raises UsageError where the SDK is not installed."""
        if not settings.trace_endpoint:
            return None
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
        except ImportError as error:
            raise UsageError(
                f"--trace-endpoint needs OpenTelemetry's SDK: {error}.",
                hint="Install the extra: pip install 'serval-live[predictor,tracing]'.",
            ) from error
        facts = {
            "service.name": "nllb-predictor",
            "service.version": package_version(),
            "model": settings.name,
        }
        provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(settings.trace_ratio), resource=Resource.create(facts)
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(settings.trace_endpoint)))
        return cls(provider)

    def begin(self, protocol: str, request_id: str, headers: Mapping[str, Any]) -> CallTrace:
        """The span of a call that has just arrived, within the trace that its headers name."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        given = {name: str(headers[name]) for name in HEADERS if name in headers}
        span = self._tracer.start_span(
            "translate",
            self._reader.extract(given),
            SpanKind.SERVER,
            {"protocol": protocol, "request.id": request_id},
        )
        epoch = time.time_ns() - time.monotonic_ns()
        return CallTrace(span, self._tracer, set_span_in_context(span), epoch)

    async def close(self) -> None:
        """Send what is left; a collector that does not answer is not waited for."""
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, LAST_SECONDS)
        if sending.is_alive():
            log.warning("the collector of traces took no last spans within %.0f s", LAST_SECONDS)
