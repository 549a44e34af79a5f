"""Engines and builds as Serval keeps them, and every move that a build can make.

Pure: a move takes a record and a time and returns the next record. Nothing here knows of HTTP, owners' rights,
storage or waiting.
"""

from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any

from tests.support.serval.clock import Ticks, stored
from tests.support.serval.errors import RuleBroken


class EngineType(Enum):
    """Kinds of engines; the value is how the API spells them."""

    NMT = "nmt"
    SMT_TRANSFER = "smt-transfer"
    ECHO = "echo"

    @classmethod
    def parse(cls, text: str) -> "EngineType":
        """Kebab, Pascal and lower case are all taken. Raises RuleBroken for anything else."""
        for kind in cls:
            if text.replace("-", "").lower() == kind.value.replace("-", ""):
                return kind
        raise RuleBroken(f"'{text}' is not a valid engine type.")


class JobState(StrEnum):
    """States of a build, spelled as the API does."""

    PENDING = "Pending"
    ACTIVE = "Active"
    COMPLETED = "Completed"
    FAULTED = "Faulted"
    CANCELED = "Canceled"

    @property
    def terminal(self) -> bool:
        return self in (JobState.COMPLETED, JobState.FAULTED, JobState.CANCELED)


@dataclass(frozen=True)
class Engine:
    """A translation engine. `model_revision` counts its completed builds; 0 means never built."""

    id: str
    owner: str
    type: EngineType
    source_language: str
    target_language: str
    name: str | None = None
    is_model_persisted: bool | None = None
    """What the creator sent; None (nothing sent) means false for nmt."""
    model_revision: int = 0
    machine_revision: int = 0
    """The counter of Serval's Machine part; differs from `model_revision` only where something went wrong."""
    confidence: float = 0.0
    corpus_size: int = 0
    date_created: Ticks | None = None


@dataclass(frozen=True)
class Languages:
    """An engine's tags as given, and the codes that they resolved to when the build began."""

    source_tag: str
    target_tag: str
    source_code: str | None = None
    target_code: str | None = None


@dataclass(frozen=True)
class Phase:
    """One stage of a build that has begun."""

    stage: str
    step: int
    step_count: int
    started: Ticks


@dataclass(frozen=True)
class Request:
    """What the caller asked for when starting a build; JSON values are kept as they came."""

    name: str | None = None
    train_on: list[Any] | None = None
    pretranslate: list[Any] | None = None
    options: dict[str, Any] | None = None


@dataclass(frozen=True)
class Build:
    """One build of an engine. `revision` grows with every write to the record."""

    id: str
    engine_id: str
    owner: str
    languages: Languages
    request: Request = field(default_factory=Request)
    revision: int = 1
    state: JobState = JobState.PENDING
    cancel_requested: bool = False
    step: int = 0
    progress: float | None = None
    message: str | None = None
    queue_depth: int = 0
    train_count: int = 0
    pretranslate_count: int = 0
    confidence: float | None = None
    phases: tuple[Phase, ...] = ()
    date_created: Ticks | None = None
    date_started: Ticks | None = None
    date_completed: Ticks | None = None
    date_finished: Ticks | None = None


@dataclass(frozen=True)
class Ending:
    """How a build ends."""

    state: JobState = JobState.COMPLETED
    message: str | None = None
    train_count: int = 7921
    pretranslate_count: int = 31102


def finish_key(build: Build) -> tuple[Ticks, str]:
    """The order of finished builds: (dateFinished, id). Only for builds that have finished."""
    if build.date_finished is None:
        raise ValueError(f"build {build.id} has not finished")
    return build.date_finished, build.id


def has_finished(build: Build) -> bool:
    return build.state.terminal and build.date_finished is not None


def activated(build: Build, now: Ticks) -> Build:
    """The training task was seen running."""
    _expect(build, JobState.PENDING)
    train = Phase("Train", 0, 5000, stored(now))
    return _written(
        build, state=JobState.ACTIVE, queue_depth=0, message=None, date_started=stored(now), phases=(train,)
    )


def progressed(build: Build, progress: float, step: int) -> Build:
    """A progress write; Serval guards it, so a finished build refuses."""
    _expect(build, JobState.PENDING, JobState.ACTIVE)
    return _written(build, progress=progress, step=step)


def restarted(build: Build) -> Build:
    """The server restarted during pre- or postprocessing: back to Pending."""
    _expect(build, JobState.ACTIVE)
    return _written(build, state=JobState.PENDING, message="Restarting")


def cancel_asked(build: Build, now: Ticks) -> Build:
    """A pending build ends at once; an active one stays active and ends later."""
    if build.state is JobState.PENDING:
        return finished(build, Ending(JobState.CANCELED), now)
    return _written(build, cancel_requested=True)


def finished(build: Build, ending: Ending, now: Ticks) -> Build:
    """The terminal write. Not guarded by the current state, as in Serval: a second one is possible."""
    if not ending.state.terminal:
        raise ValueError(f"{ending.state} does not end a build")
    message = ending.message or ("Faulted" if ending.state is JobState.FAULTED else ending.state.value)
    done = _written(
        build,
        state=ending.state,
        message=message,
        queue_depth=0,
        date_finished=stored(now),
        cancel_requested=False,
    )
    if ending.state is not JobState.COMPLETED:
        return done
    phases = (
        Phase("Inference", ending.pretranslate_count, ending.pretranslate_count, stored(now)),
        *build.phases,
    )
    return replace(
        done,
        step=5000,
        progress=1.0,
        phases=phases,
        train_count=ending.train_count,
        pretranslate_count=ending.pretranslate_count,
        date_completed=stored(now) if build.date_started is not None else None,
    )


def released(engine: Engine, ending: Ending) -> Engine:
    """The engine after a completed build: the next revision, in both counters."""
    return replace(
        engine,
        model_revision=engine.model_revision + 1,
        machine_revision=engine.machine_revision + 1,
        corpus_size=ending.train_count,
    )


def _written(build: Build, **changes: Any) -> Build:
    return replace(build, revision=build.revision + 1, **changes)


def _expect(build: Build, *states: JobState) -> None:
    if build.state not in states:
        raise RuleBroken(f"build {build.id} is {build.state}")
