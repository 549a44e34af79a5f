"""The conditions of a ServalSource: can Serval be asked, can the store be used, does anything need a person."""

from dataclasses import dataclass
from datetime import datetime

from engine_operator.domain import reasons
from engine_operator.domain.deletion import DeletionVerdict
from engine_operator.domain.observed import Condition, ConditionStatus
from engine_operator.domain.serval_facts import Verdict

CONNECTED = "Connected"
STORAGE_READY = "StorageReady"
DEGRADED = "Degraded"

_NAMED = 10
"""Engines that a message names; a condition is no list."""


@dataclass(frozen=True)
class SourceFacts:
    """What one sweep found out."""

    generation: int
    serval: Verdict | None
    """Why Serval could not be asked; None if it was."""
    storage: Verdict | None
    store_uri: str
    deletion: DeletionVerdict


def source_conditions(facts: SourceFacts, old: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    """All conditions; times of unchanged ones are kept."""
    before = {condition.type: condition for condition in old}

    def stamped(kind: str, status: ConditionStatus, reason: str, message: str) -> Condition:
        known = before.get(kind)
        since = known.last_transition if known is not None and known.status is status else now
        return Condition(kind, status, reason, message[:1024], since, facts.generation)

    connected = facts.serval
    storage = facts.storage
    return (
        stamped(
            CONNECTED, ConditionStatus.TRUE, reasons.CONNECTED, "Serval answers and accepts the credentials"
        )
        if connected is None
        else stamped(CONNECTED, ConditionStatus.FALSE, connected.reason, connected.message),
        stamped(STORAGE_READY, ConditionStatus.TRUE, reasons.STORAGE_REACHABLE, facts.store_uri)
        if storage is None
        else stamped(STORAGE_READY, ConditionStatus.FALSE, storage.reason, storage.message),
        stamped(DEGRADED, *_degraded(facts.deletion)),
    )


def _degraded(deletion: DeletionVerdict) -> tuple[ConditionStatus, str, str]:
    if deletion.held:
        told = (
            f"{len(deletion.held)} engines are gone in Serval and kept here: {_names(deletion.held)}. To let them go: "
            f"kubectl annotate servalsource NAME serval-live.dev/allow-mass-deletion={len(deletion.held)}"
        )
        return ConditionStatus.TRUE, reasons.MASS_DELETION_HELD, told
    if deletion.not_ours:
        told = f"Serval answers 403 for {len(deletion.not_ours)} engines: {_names(deletion.not_ours)}"
        return ConditionStatus.TRUE, reasons.NOT_OURS, told
    return ConditionStatus.FALSE, reasons.AS_EXPECTED, ""


def _names(engines: tuple[str, ...]) -> str:
    more = f" and {len(engines) - _NAMED} more" if len(engines) > _NAMED else ""
    return ", ".join(engines[:_NAMED]) + more
