"""Answers: JSON bodies, and one place that turns an error into status and body."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tests.support.serval.errors import (
    ApiError,
    Crashed,
    Forbidden,
    Invalid,
    RuleBroken,
    Unauthenticated,
)
from tests.support.serval.rendering import dumps, problem, validation_problem

JSON = "application/json; charset=utf-8"
PROBLEM = "application/problem+json; charset=utf-8"
AS_PLAIN_JSON = frozenset({408, 499, 503})
"""Problems come under either media type, by the code path; here by status, so that readers must take both."""


def ok(value: object) -> Response:
    return Response(dumps(value), media_type=JSON)


def created(value: object, location: str) -> Response:
    return Response(dumps(value), status_code=201, media_type=JSON, headers={"Location": location})


def done() -> Response:
    """200 without a body."""
    return Response()


def no_content() -> Response:
    return Response(status_code=204)


def bare(status: int, headers: dict[str, str] | None = None) -> Response:
    """A status and nothing else."""
    return Response(status_code=status, headers=headers)


def problem_response(status: int) -> Response:
    kind = JSON if status in AS_PLAIN_JSON else PROBLEM
    return Response(dumps(problem(status)), status_code=status, media_type=kind)


def of_status(status: int) -> Response:
    """What Serval's own code sends for a status, for faults that name only that."""
    if status in (401, 403, 500):
        return bare(status)
    return problem_response(status) if status >= 400 else bare(status)


def from_error(request: Request, error: Exception) -> Response:
    """The answer to an error of the tree, or to a path or verb that routing refused."""
    match error:
        case Unauthenticated():
            return bare(401, {"WWW-Authenticate": "Bearer"} if error.bearer else None)
        case Forbidden() | Crashed():
            return bare(error.status)
        case Invalid():
            return Response(dumps(validation_problem(error.fields)), status_code=400, media_type=PROBLEM)
        case RuleBroken():
            return _message(request, str(error))
        case ApiError():
            return problem_response(error.status)
        case HTTPException():
            return bare(error.status_code, dict(error.headers or {}))
        case _:
            raise error


def _message(request: Request, text: str) -> Response:
    """The rule alone: a JSON string for callers that accept JSON by name, else plain text."""
    if "json" in request.headers.get("accept", ""):
        return Response(dumps(text), status_code=400, media_type=JSON)
    return Response(text, status_code=400, media_type="text/plain")
