"""What the HTTP handlers share: the parts of one stand-in, the journal of requests, and reading of requests."""

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from tests.support.serval.access import Access, Identity
from tests.support.serval.archives import ModelArchives
from tests.support.serval.errors import Invalid, UnsupportedMediaType
from tests.support.serval.faults import Faults
from tests.support.serval.settings import Settings
from tests.support.serval.world import World

T = TypeVar("T")
OWNER_IN_SCOPE = "serval_stand_in.owner"
JOURNAL_LENGTH = 10_000


@dataclass(frozen=True)
class Entry:
    """One API request as it ended. `status` is None where the connection was cut instead."""

    started: float
    """Seconds of the monotonic clock."""
    seconds: float
    method: str
    path: str
    query: str
    owner: str | None
    by_key: bool
    status: int | None


class Journal:
    """The last requests, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque(maxlen=JOURNAL_LENGTH)

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)


@dataclass
class Backend:
    """The parts of one stand-in. `settings` may be replaced while it runs."""

    settings: Settings
    world: World
    access: Access
    archives: ModelArchives | None
    faults: Faults = field(default_factory=Faults)
    journal: Journal = field(default_factory=Journal)
    started: float = field(default_factory=time.monotonic)

    def caller(self, request: Request, scope: str) -> Identity:
        """Who calls, checked for one scope. Raises Unauthenticated, then Forbidden."""
        identity = self.access.identify(
            request.headers.get("x-api-key"), request.headers.get("authorization")
        )
        request.scope[OWNER_IN_SCOPE] = identity.owner
        identity.require(scope)
        return identity


async def read_json(request: Request) -> Any:
    """The body's JSON value. Raises UnsupportedMediaType, or Invalid for an empty body, `null` or broken JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType(kind)
    try:
        value = json.loads(await request.body())
    except ValueError:
        raise Invalid(body="The JSON value could not be converted.") from None
    if value is None:
        raise Invalid(body="A non-empty request body is required.")
    return value


async def read_segment(request: Request) -> str:
    """The body as one JSON string; an empty string is fine."""
    value = await read_json(request)
    if not isinstance(value, str):
        raise Invalid(segment="The JSON value could not be converted to System.String.")
    return value


@dataclass(frozen=True)
class Body:
    """A JSON object of a request, read field by field; unknown fields are ignored."""

    values: dict[str, Any]

    @classmethod
    async def of(cls, request: Request, *, required: bool = True) -> "Body":
        """The object. With `required` False an empty body counts as an empty object."""
        if not required and not await request.body():
            return cls({})
        value = await read_json(request)
        if not isinstance(value, dict):
            raise Invalid(body="The JSON value could not be converted to an object.")
        return cls(value)

    def need(self, *names: str) -> None:
        """Raises Invalid naming every field that is missing or blank."""
        missing = [name for name in names if self.values.get(name) in (None, "")]
        if missing:
            raise Invalid(**{name: f"The {name} field is required." for name in missing})

    def text(self, name: str) -> str | None:
        return self._typed(name, str)

    def flag(self, name: str) -> bool | None:
        return self._typed(name, bool)

    def items(self, name: str) -> list[Any] | None:
        return self._typed(name, list)

    def members(self, name: str) -> dict[str, Any] | None:
        return self._typed(name, dict)

    def _typed(self, name: str, kind: type[T]) -> T | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, kind):
            raise Invalid(**{name: f"The JSON value could not be converted to {kind.__name__}."})
        return value
