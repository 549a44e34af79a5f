"""What crosses a process border, as JSON documents that every part ships and tests against.

Writer and reader live in different packages that never import each other; only these documents are common. The
package holds no behaviour beyond handing them out.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

SchemaName = Literal["manifest", "termination", "v2-request", "v2-response", "error"]

SCHEMA_NAMES: tuple[SchemaName, ...] = ("manifest", "termination", "v2-request", "v2-response", "error")
"""`manifest`: what stands beside a converted model; `termination`: the last line of a process that gives up;
`v2-request`, `v2-response`: the words of a translation call; `error`: the body of a refusal."""


@dataclass(frozen=True)
class ProcessReason:
    """A reason of a termination line; `final` means that the same source will fail in the same way again."""

    reason: str
    exit_code: int
    final: bool


@dataclass(frozen=True)
class RequestReason:
    """A reason of an error body; `grpc` is the name of a status code."""

    reason: str
    http: int
    grpc: str


@cache
def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def schema(name: SchemaName) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of that name; a fresh copy, so that no caller changes another's.

    Raises FileNotFoundError for a name outside `SCHEMA_NAMES`.
    """
    loaded: dict[str, Any] = json.loads(_text(f"{name}.schema.json"))
    return loaded


def process_reasons() -> tuple[ProcessReason, ...]:
    """The reasons with which a converter or predictor gives up, by exit code; from `reasons.json`."""
    rows = json.loads(_text("reasons.json"))["process"]
    return tuple(ProcessReason(row["reason"], row["exitCode"], row["final"]) for row in rows)


def request_reasons() -> tuple[RequestReason, ...]:
    """The reasons with which one request is refused; from `reasons.json`."""
    return tuple(RequestReason(**row) for row in json.loads(_text("reasons.json"))["request"])
