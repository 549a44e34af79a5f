"""The one table from errors to protocols: HTTP status, gRPC code, body, headers.

Everything that leaves a handler by exception passes here, so that REST and gRPC use the same words, and so that what
nobody foresaw is an `Internal` without the caller's payload in it.
"""

import logging
import math
from dataclasses import dataclass
from typing import Any

from nllb_predictor import errors

log = logging.getLogger(__name__)

LONGEST_WORDS = 600
"""Characters of a message or hint. Errors repeat what a caller sent, which may be megabytes, and gRPC clients drop a
status of more than 8 KiB."""
LONGEST_FIELD = 60


@dataclass(frozen=True)
class Fault:
    """One error as both protocols tell it. `code` is the name of a gRPC status."""

    status: int
    code: str
    reason: str
    message: str
    field: str = ""
    hint: str = ""
    retry_after: int | None = None
    """Seconds."""

    def body(self) -> dict[str, Any]:
        """The JSON of a REST answer."""
        parts = {"error": self.message, "reason": self.reason, "field": self.field, "hint": self.hint}
        return {key: value for key, value in parts.items() if value}

    def headers(self) -> dict[str, str]:
        found = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        # What is left of a body that came too slowly must not hold the connection on.
        return found | ({"connection": "close"} if self.status == TOO_SLOW else {})

    def details(self) -> str:
        """The message of a gRPC status: the same words in one line."""
        where = f" [{self.field}]" if self.field else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.reason}: {self.message}{hint}{where}"

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Trailing gRPC metadata: what REST tells in body and headers. Metadata holds printable ASCII only, and gRPC
        drops the whole status for anything else; the field is a name that a caller may have made up."""
        field = self.field.encode("unicode_escape").decode("ascii")
        pairs = {"serval-live-reason": self.reason, "serval-live-field": field}
        if self.retry_after is not None:
            pairs["retry-after"] = str(self.retry_after)
        return tuple((key, value) for key, value in pairs.items() if value)


@dataclass(frozen=True)
class _Row:
    status: int
    code: str
    retry_after: int | None = None


TOO_SLOW = 408

NO_THREAD = "can't start new thread"
"""How Python words a stack that finds no memory; it has no error class for it."""

INTERNAL = _Row(500, "INTERNAL")

TABLE: dict[type[errors.RequestError], _Row] = {
    errors.BadRequest: _Row(400, "INVALID_ARGUMENT"),
    errors.UnknownLanguage: _Row(400, "INVALID_ARGUMENT"),
    errors.LanguageNeeded: _Row(400, "INVALID_ARGUMENT"),
    errors.PairNotServed: _Row(400, "INVALID_ARGUMENT"),
    errors.TextTooLong: _Row(400, "INVALID_ARGUMENT"),
    errors.UnknownModel: _Row(404, "NOT_FOUND"),
    errors.BodyTooSlow: _Row(TOO_SLOW, "DEADLINE_EXCEEDED"),
    errors.HeadTooSlow: _Row(TOO_SLOW, "DEADLINE_EXCEEDED"),
    errors.PayloadTooLarge: _Row(413, "RESOURCE_EXHAUSTED"),
    errors.Overloaded: _Row(429, "RESOURCE_EXHAUSTED", retry_after=1),
    errors.NotReady: _Row(503, "UNAVAILABLE", retry_after=1),
    errors.ShuttingDown: _Row(503, "UNAVAILABLE", retry_after=1),
    errors.OutOfMemory: _Row(503, "RESOURCE_EXHAUSTED", retry_after=5),
    errors.DeadlineExceeded: _Row(504, "DEADLINE_EXCEEDED"),
}


def no_memory(error: BaseException) -> bool:
    """Whether Python itself found no memory for a request."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_THREAD in str(error))


def shortened(text: str, most: int = LONGEST_WORDS) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fault_of(error: BaseException) -> Fault:
    """How an error is told; an unforeseen one is logged in full and told in general words."""
    if no_memory(error):
        log.error("no memory for a request", exc_info=error)
        error = errors.OutOfMemory("The server has no memory for this request.")
    if isinstance(error, errors.RequestError):
        row = next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), INTERNAL)
        retry_after = row.retry_after if error.retry_after is None else max(1, math.ceil(error.retry_after))
        words = shortened(error.message), shortened(error.field, LONGEST_FIELD), shortened(error.hint)
        return Fault(row.status, row.code, error.reason, *words, retry_after)
    log.error("unforeseen error in a request", exc_info=error)
    return Fault(
        INTERNAL.status,
        INTERNAL.code,
        "Internal",
        f"An unforeseen error ({type(error).__name__}); the server's log has it in full.",
    )
