"""What a refusal of the Kubernetes API means: the one place that turns a Status object into a typed error.

Pure. The API tells a webhook that is away from one that said no only by its message; that knowledge is kept here.
"""

import re
from collections.abc import Mapping
from typing import Any

import httpx

from engine_operator.errors import (
    AlreadyExists,
    ClusterBusy,
    ClusterError,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    NotFound,
    Outdated,
    Rejected,
    WebhookFailed,
)

DEFAULT_RETRY_AFTER = 1.0
"""Seconds; what the API's own clients assume where a 429 names none."""

_WEBHOOK_AWAY = re.compile(r'failed calling webhook "([^"]+)"')
_LONGEST_MESSAGE = 600
"""Characters of a message that we pass on; admission errors can quote whole objects."""


def error_of(answer: httpx.Response) -> ClusterError:
    """The error for an answer that is not 2xx."""
    status = _status(answer)
    said = str(status.get("message") or answer.text or answer.reason_phrase)
    message = f"{answer.request.method} {answer.request.url.path}: {said[:_LONGEST_MESSAGE]}"
    code = answer.status_code
    away = _WEBHOOK_AWAY.search(said)
    if away:
        return WebhookFailed(message, away.group(1))
    if code == 429:
        return ClusterBusy(message, retry_after_of(answer))
    if code == 409:
        return _conflict(status)(message)
    if "denied the request" in said:
        return Rejected(message)
    return _by_code(code)(message)


def retry_after_of(answer: httpx.Response) -> float:
    """Seconds that a 429 asks to wait: header first, then the body."""
    details = _status(answer).get("details") or {}
    return retry_after(answer.headers.get("retry-after"), details.get("retryAfterSeconds"))


def retry_after(*values: Any) -> float:
    """The first of these that is a number of seconds, else what clients assume."""
    for value in values:
        try:
            seconds = float(value) if value is not None else 0.0
        except ValueError:
            continue  # A date, which the API never sends.
        if seconds > 0:
            return seconds
    return DEFAULT_RETRY_AFTER


def _conflict(status: Mapping[str, Any]) -> type[ClusterError]:
    if status.get("reason") == "AlreadyExists":
        return AlreadyExists
    causes = (status.get("details") or {}).get("causes") or []
    by_manager = any(cause.get("reason") == "FieldManagerConflict" for cause in causes)
    return Conflict if by_manager else Outdated


def _by_code(code: int) -> type[ClusterError]:
    if code >= 500 or code == 410:
        return ClusterUnreachable
    known: dict[int, type[ClusterError]] = {401: Forbidden, 403: Forbidden, 404: NotFound}
    return known.get(code, Rejected)


def _status(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
