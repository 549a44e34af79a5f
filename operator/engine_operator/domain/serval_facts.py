"""What Serval says about an engine, and whether such an engine can be served at all.

The verdicts are a chain: the first that applies is told, so its order is part of what people see. A verdict never
looks at clusters or stores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from engine_operator.domain import reasons
from engine_operator.domain.engine import EngineSelector
from engine_operator.domain.keys import EngineId

SERVABLE_TYPES = frozenset({"nmt"})
"""Engine types whose models are NLLB checkpoints."""


@dataclass(frozen=True)
class ServalEngine:
    """The fields of Serval's engine record that decide anything here."""

    id: EngineId
    type: str
    model_revision: int
    """Number of completed builds; 0 = never built."""
    is_model_persisted: bool
    """Fixed at creation; absent in Serval's answer means False."""
    is_building: bool = False
    name: str = ""
    source_language: str = ""
    target_language: str = ""
    date_created: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """Why something is not so: a constant of `reasons` and one sentence with this case's values."""

    reason: str
    message: str


class Existence(StrEnum):
    """What is known of an engine in Serval."""

    PRESENT = "Present"
    MISSING = "Missing"
    """404 on the engine itself, which is no proof yet: what runs goes on, nothing new is started for it."""
    GONE = "Gone"
    """By the deletion rule, not by one missing answer."""
    NOT_OURS = "NotOurs"
    """403 on the engine itself."""
    UNKNOWN = "Unknown"
    """Serval was not reached, or the list was short."""


def servable(engine: ServalEngine, selector: EngineSelector) -> Verdict | None:
    """Return why this engine cannot or shall not be served; None if it can."""
    for check in _CHAIN:
        verdict = check(engine, selector)
        if verdict is not None:
            return verdict
    return None


def _unsupported(engine: ServalEngine, _: EngineSelector) -> Verdict | None:
    if engine.type.lower() in SERVABLE_TYPES:
        return None
    return Verdict(
        reasons.ENGINE_TYPE_UNSUPPORTED, f"type {engine.type!r} has no NLLB model; served are: nmt"
    )


def _not_selected(engine: ServalEngine, selector: EngineSelector) -> Verdict | None:
    languages = f"{engine.source_language}→{engine.target_language}"
    if selector.types and engine.type.lower() not in {t.lower() for t in selector.types}:
        return Verdict(reasons.NOT_SELECTED, f"type {engine.type!r} is not in engineSelector.types")
    if selector.names and not any(fnmatchcase(engine.name, pattern) for pattern in selector.names):
        return Verdict(reasons.NOT_SELECTED, f"name {engine.name!r} matches none of engineSelector.names")
    if selector.source_languages and engine.source_language not in selector.source_languages:
        return Verdict(reasons.NOT_SELECTED, f"{languages}: source language is not selected")
    if selector.target_languages and engine.target_language not in selector.target_languages:
        return Verdict(reasons.NOT_SELECTED, f"{languages}: target language is not selected")
    return None


def _not_persisted(engine: ServalEngine, _: EngineSelector) -> Verdict | None:
    if engine.is_model_persisted:
        return None
    return Verdict(
        reasons.MODEL_NOT_PERSISTED,
        "created without isModelPersisted: Serval keeps no model file of it, and that cannot be changed later",
    )


def _never_trained(engine: ServalEngine, _: EngineSelector) -> Verdict | None:
    if engine.model_revision >= 1:
        return None
    return Verdict(reasons.NEVER_TRAINED, "modelRevision is 0: no build has completed yet")


_CHAIN: tuple[Callable[[ServalEngine, EngineSelector], Verdict | None], ...] = (
    _unsupported,
    _not_selected,
    _not_persisted,
    _never_trained,
)
