"""The parts of Serval's JSON that the operator reads, checked at the border.

Serval omits null properties, adds fields over time and spells enums as strings; so every field that Serval calls
optional is optional here, unknown fields are dropped, and an unknown build state is kept as `UNKNOWN` instead of
failing a whole list. Ids are lower-case hex of 24 digits.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


class BuildState(Enum):
    """State of a build. `UNKNOWN` stands for words that this version has never heard of."""

    PENDING = "Pending"
    ACTIVE = "Active"
    COMPLETED = "Completed"
    FAULTED = "Faulted"
    CANCELED = "Canceled"
    UNKNOWN = "Unknown"

    @property
    def terminal(self) -> bool:
        """No further progress is expected."""
        return self in (BuildState.COMPLETED, BuildState.FAULTED, BuildState.CANCELED)


def _state(value: Any) -> Any:
    if isinstance(value, BuildState):
        return value
    known = {state.value.lower(): state for state in BuildState}
    return known.get(str(value).lower(), BuildState.UNKNOWN)


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_utc)]
"""A date of Serval's; one without an offset is UTC."""


class Dto(BaseModel):
    """Base of all shapes: camelCase on the wire, immutable, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )


class ServalEngine(Dto):
    """One translation engine. `model_revision` counts completed builds; 0 means never built."""

    id: str = Field(pattern=r"^[0-9a-f]{24}$")
    type: str
    source_language: str
    """The tag as the client gave it, never a resolved code."""
    target_language: str
    name: str | None = None
    is_model_persisted: bool | None = None
    """Omitted means false for `nmt`; can't be changed later."""
    is_building: bool = False
    model_revision: int = 0
    date_created: Moment | None = None


class EngineRef(Dto):
    """The engine that a build belongs to."""

    id: str


class ExecutionData(Dto):
    """What a build learned; the resolved codes are the authority for a model's languages."""

    resolved_source_language: str | None = None
    resolved_target_language: str | None = None


class Build(Dto):
    """One build. Does not name the model revision that it produced."""

    id: str
    engine: EngineRef
    state: Annotated[BuildState, BeforeValidator(_state)]
    message: str | None = None
    date_created: Moment | None = None
    date_finished: Moment | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    execution_data: ExecutionData = Field(default_factory=ExecutionData)


class ModelDownload(Dto):
    """A presigned GET of the model archive: a bearer token for an hour, never to be logged."""

    url: str = Field(repr=False)
    model_revision: int
    expires_at: Moment
