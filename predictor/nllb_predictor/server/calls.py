"""One call from its arrival to its answer: counted, logged and, where that is wanted, traced by its outcome.

Whatever a route does for a call happens inside `watched`, so that what is refused before it reaches the model counts
as well. Log lines and spans hold numbers and names; texts only where `--log-text` asks for them, and then in the log.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect

from nllb_predictor import stages
from nllb_predictor.errors import OutOfMemory, PredictorError, RequestError, UnknownModel
from nllb_predictor.server import metrics
from nllb_predictor.server.faults import no_memory
from nllb_predictor.server.statistics import Statistics
from nllb_predictor.server.tracing import CallTrace, Traces

log = logging.getLogger(__name__)

OK = "OK"
CALLER_LEFT = "CallerLeft"


@dataclass
class Call:
    """What is known of a call so far."""

    protocol: str
    """v1, v2 or grpc."""
    request_id: str
    texts: Sequence[Any] = ()
    translations: Sequence[Any] = ()


class Calls:
    """Watches the calls of one process."""

    def __init__(self, counted: Statistics, traces: Traces | None = None, log_text: bool = False) -> None:
        self._counted = counted
        self._traces = traces
        self._log_text = log_text

    @contextmanager
    def watched(self, protocol: str, request_id: str, headers: Mapping[str, Any]) -> Iterator[Call]:
        """The block is the call; errors pass."""
        call, started, outcome = Call(protocol, request_id), time.monotonic(), OK
        trace = self._traces.begin(protocol, request_id, headers) if self._traces else None
        listening = stages.listener.set(trace.stage if trace else None)
        try:
            yield call
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            stages.listener.reset(listening)
            self._ended(call, outcome, time.monotonic() - started, trace)

    def _ended(self, call: Call, outcome: str, seconds: float, trace: CallTrace | None) -> None:
        metrics.REQUESTS.labels(call.protocol, outcome).inc()
        if outcome != UnknownModel.reason:
            self._counted.request(outcome == OK, seconds)
        facts: dict[str, Any] = {
            "request": call.request_id,
            "protocol": call.protocol,
            "outcome": outcome,
            "segments": len(call.texts),
            "seconds": round(seconds, 4),
        }
        if trace is not None:
            facts["trace"] = trace.id
            trace.end(outcome, outcome in (OK, CALLER_LEFT), len(call.texts))
        if self._log_text:
            facts |= {"texts": call.texts, "translations": call.translations}
        log.info("request", extra=facts)


def outcome_of(error: BaseException) -> str:
    """The reason that the caller is told, or that there is no caller any more."""
    if isinstance(error, asyncio.CancelledError | ClientDisconnect):
        return CALLER_LEFT
    if isinstance(error, RequestError):
        return error.reason
    return OutOfMemory.reason if no_memory(error) else PredictorError.reason
