"""JSON as Serval writes it: camelCase, null members left out, whole doubles without a fraction, dates in UTC."""

import json
import secrets
from typing import Any

from tests.support.serval.access import ApiKey
from tests.support.serval.archives import Download
from tests.support.serval.clock import Ticks, written
from tests.support.serval.domain import Build, Engine

PREFIX = "/api/v1"
_SECTIONS = {
    400: ("15.5.1", "Bad Request"),
    404: ("15.5.5", "Not Found"),
    405: ("15.5.6", "Method Not Allowed"),
    408: ("15.5.9", "Request Timeout"),
    409: ("15.5.10", "Conflict"),
    415: ("15.5.16", "Unsupported Media Type"),
    503: ("15.6.4", "Service Unavailable"),
}
Json = dict[str, Any]


def dumps(value: object) -> str:
    """JSON text with null members of objects left out and doubles in their shortest .NET form."""
    match value:
        case dict():
            members = (
                f"{json.dumps(str(name))}:{dumps(item)}" for name, item in value.items() if item is not None
            )
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join(dumps(item) for item in value) + "]"
        case float():
            return double(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def double(value: float) -> str:
    """`1.0` is `1`, `1e-08` is `1E-08`. Raises ValueError for what JSON cannot hold."""
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} cannot be written as JSON")
    text = repr(value).upper()
    mantissa, _, exponent = text.partition("E")
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}E{exponent}" if exponent else mantissa


def problem(status: int) -> Json:
    """A ProblemDetails body; 499 has neither type nor title."""
    section, title = _SECTIONS.get(status, (None, None))
    kind = f"https://tools.ietf.org/html/rfc9110#section-{section}" if section else None
    return {"type": kind, "title": title, "status": status, "traceId": trace_id()}


def validation_problem(fields: dict[str, list[str]]) -> Json:
    return {
        **problem(400),
        "title": "One or more validation errors occurred.",
        "errors": fields,
    }


def trace_id() -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def engine_path(engine_id: str) -> str:
    return f"{PREFIX}/translation/engines/{engine_id}"


def engine_json(engine: Engine, *, is_building: bool, created: Ticks | None = None) -> Json:
    """The engine; `created` is the time before the database cut it, shown only in the answer that creates it."""
    date = created if created is not None else engine.date_created
    return {
        "id": engine.id,
        "url": engine_path(engine.id),
        "name": engine.name,
        "sourceLanguage": engine.source_language,
        "targetLanguage": engine.target_language,
        "type": engine.type.value,
        "isModelPersisted": engine.is_model_persisted,
        "isBuilding": is_building,
        "modelRevision": engine.model_revision,
        "confidence": round(engine.confidence, 8),
        "corpusSize": engine.corpus_size,
        "dateCreated": _date(date),
    }


def build_json(build: Build, deployment_version: str, created: Ticks | None = None) -> Json:
    """The build; neither its owner nor the model revision that it made is shown."""
    url = engine_path(build.engine_id)
    return {
        "id": build.id,
        "url": f"{url}/builds/{build.id}",
        "revision": build.revision,
        "name": build.request.name,
        "engine": {"id": build.engine_id, "url": url},
        "trainOn": build.request.train_on,
        "pretranslate": build.request.pretranslate,
        "step": build.step,
        "percentCompleted": build.progress,
        "progress": build.progress,
        "message": build.message,
        "queueDepth": build.queue_depth,
        "state": build.state.value,
        "dateCreated": _date(created if created is not None else build.date_created),
        "dateStarted": _date(build.date_started),
        "dateCompleted": _date(build.date_completed),
        "dateFinished": _date(build.date_finished),
        "options": build.request.options,
        "deploymentVersion": deployment_version,
        "executionData": _execution_json(build),
        "phases": [
            {"stage": p.stage, "step": p.step, "stepCount": p.step_count, "started": written(p.started)}
            for p in build.phases
        ],
        "targetQuoteConvention": "",
        "canDenormalizeQuotes": False,
    }


def key_json(key: ApiKey, text: str | None = None) -> Json:
    """A key's record; its text is shown only once, by the call that makes it."""
    return {
        "id": key.id,
        "clientId": key.owner,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "dateCreated": written(key.date_created),
        "expiresAt": _date(key.expires),
        "isRevoked": key.revoked,
        "key": text,
    }


def download_json(download: Download) -> Json:
    return {"url": download.url, "modelRevision": download.revision, "expiresAt": written(download.expires)}


def _execution_json(build: Build) -> Json:
    return {
        "trainCount": build.train_count,
        "pretranslateCount": build.pretranslate_count,
        "isTrainFilteredByChapter": False,
        "isPretranslateFilteredByChapter": False,
        "warnings": [],
        "diagnostics": [],
        "engineSourceLanguageTag": build.languages.source_tag,
        "engineTargetLanguageTag": build.languages.target_tag,
        "resolvedSourceLanguage": build.languages.source_code,
        "resolvedTargetLanguage": build.languages.target_code,
        "averagePretranslationConfidence": build.confidence,
    }


def _date(ticks: Ticks | None) -> str | None:
    return None if ticks is None else written(ticks)
