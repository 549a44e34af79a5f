"""What a test decides about the simulated machines: how long things take, and how they end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ending:
    """How a container ends by failure: exit code, and its termination line."""

    exit_code: int
    reason: str
    message: str = "as the test wished"
    cause: str = "Error"
    """Kubernetes' own word: OOMKilled leaves no termination line."""


def no_ending(_: dict[str, str]) -> Ending | None:
    """Everything loads."""
    return None


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class World:
    """Knobs, to be turned while the simulator runs. Durations in seconds."""

    tick: float = 0.1
    """Between two looks at the cluster."""

    conversion: float = 0.1
    """How long a conversion takes."""

    load: float = 0.1
    """From a started container to a ready predictor."""

    load_of: Callable[[dict[str, str]], float] | None = None
    """Given a predictor's environment: another length of its load."""

    idle: float = float("inf")
    """From a pod's readiness or last call to its removal; infinite: pods stay."""

    linger: float = 3.0
    """How long a Revision without traffic keeps its pod."""

    loads_may_end: asyncio.Event = field(default_factory=_set)
    """Cleared: predictors start and do not get ready."""

    nodes: int = 100
    """Pods of predictors that find a node at once. 0: everything stays Pending."""

    always_schedulable: bool = False
    """Knative's `pod-is-always-schedulable`: false, as where nobody set it, and a Revision is not Ready while its only
    pod has no node."""

    conversions_may_end: asyncio.Event = field(default_factory=_set)
    """Cleared: converters start and do not end."""

    load_ending: Callable[[dict[str, str]], Ending | None] = field(default=no_ending)
    """Given a predictor's environment: how its load fails, or None."""

    conversion_ending: Callable[[dict[str, str]], Ending | None] = field(default=no_ending)
    """Given a converter's arguments (`--revision` and the like): how it fails, or None."""
