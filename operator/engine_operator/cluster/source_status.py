"""`status` of a ServalSource, to JSON and back: the cursor, what was seen, what was skipped, what may be deleted.

All that the operator must remember about an account lives here; the process can be lost at any time.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from engine_operator.cluster.engine_status import read_conditions, time_of, when, write_conditions
from engine_operator.cluster.facts import moment
from engine_operator.cluster.resources import Json, JsonView
from engine_operator.domain.budget import WakeBudget, time_chain
from engine_operator.domain.deletion import DeletionLedger, Missing
from engine_operator.domain.discovery import Skipped
from engine_operator.domain.effective import Defaults
from engine_operator.domain.keys import EngineId
from engine_operator.domain.observed import Condition, KnativeSettings
from engine_operator.serval.events import Cursor

SHOWN_SKIPPED = 20
"""Skipped engines that are listed one by one; all are counted."""


@dataclass(frozen=True)
class SourceStatus:
    """The whole status of a ServalSource."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    cursor: Cursor | None = None
    last_event: datetime | None = None
    last_sweep: datetime | None = None
    seen: int = 0
    servable: int = 0
    serving: int = 0
    skipped: tuple[Skipped, ...] = ()
    skipped_counts: dict[str, int] = field(default_factory=dict)
    ledger: DeletionLedger = field(default_factory=lambda: DeletionLedger({}))
    installation: str = ""
    knative: KnativeSettings = field(default_factory=KnativeSettings)


def counted(skipped: tuple[Skipped, ...]) -> dict[str, int]:
    """Skipped engines by reason."""
    return dict(sorted(Counter(one.reason for one in skipped).items()))


def substance(status: SourceStatus) -> SourceStatus:
    """The status without the times that move by themselves: only another substance is worth a write.

    A deletion that leaves the guard's window is no news; one that enters it changes `missing` as well.
    """
    missing = {engine: replace(entry, last=entry.first) for engine, entry in status.ledger.missing.items()}
    ledger = replace(status.ledger, missing=missing, recent=())
    return replace(status, last_event=None, last_sweep=None, ledger=ledger)


def read_source_status(body: JsonView) -> SourceStatus:
    """Status as last written; an empty one if there is none, and nothing of what can't be read."""
    engines, skipped = body.get("engines") or {}, body.get("skipped") or {}
    return SourceStatus(
        observed_generation=int(body.get("observedGeneration") or 0),
        conditions=read_conditions(body),
        cursor=_read_cursor(body.get("cursor")),
        last_event=moment(body.get("lastEvent")),
        last_sweep=moment(body.get("lastSweep")),
        seen=int(engines.get("seen") or 0),
        servable=int(engines.get("servable") or 0),
        serving=int(engines.get("serving") or 0),
        skipped=tuple(
            Skipped(
                EngineId(one["engineId"]), one.get("name", ""), one.get("reason", ""), one.get("message", "")
            )
            for one in skipped.get("engines") or []
        ),
        skipped_counts={str(key): int(value) for key, value in (skipped.get("counts") or {}).items()},
        ledger=_read_ledger(body),
        installation=str(body.get("installation") or ""),
        knative=_read_knative(body.get("knative") or {}),
    )


def write_source_status(status: SourceStatus) -> Json:
    """The whole status, for a server-side apply of the status subresource."""
    body: Json = {
        "observedGeneration": status.observed_generation,
        "conditions": write_conditions(status.conditions),
        "cursor": _write_cursor(status.cursor) if status.cursor else None,
        "lastEvent": when(status.last_event) if status.last_event else None,
        "lastSweep": when(status.last_sweep) if status.last_sweep else None,
        "engines": {"seen": status.seen, "servable": status.servable, "serving": status.serving},
        "skipped": _write_skipped(status),
        "missing": {
            str(engine): {"first": when(entry.first), "last": when(entry.last)}
            | ({"released": True} if entry.released else {})
            for engine, entry in sorted(status.ledger.missing.items())
        }
        or None,
        "deletions": _write_deletions(status.ledger),
        "installation": status.installation or None,
        "knative": _write_knative(status.knative),
    }
    return {key: value for key, value in body.items() if value is not None}


def _read_cursor(body: Any) -> Cursor | None:
    if not body:
        return None
    try:
        return Cursor(str(body["buildId"]), str(body["engineId"]), time_of(body, "dateFinished"))
    except (KeyError, ValueError, TypeError):
        return None  # Without a cursor the loop searches a new one and reconciles: nothing is lost.


def _write_cursor(cursor: Cursor) -> Json:
    finished = cursor.date_finished.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"buildId": cursor.build_id, "engineId": cursor.engine_id, "dateFinished": finished}


def _write_skipped(status: SourceStatus) -> Json | None:
    if not status.skipped_counts:
        return None
    shown = [
        {"engineId": str(one.engine_id), "name": one.name, "reason": one.reason, "message": one.message}
        for one in status.skipped[:SHOWN_SKIPPED]
    ]
    return {"counts": dict(status.skipped_counts), "engines": shown}


def _read_ledger(body: JsonView) -> DeletionLedger:
    missing: dict[EngineId, Missing] = {}
    for engine, entry in (body.get("missing") or {}).items():
        try:
            missing[EngineId(engine)] = Missing(
                time_of(entry, "first"), time_of(entry, "last"), bool(entry.get("released"))
            )
        except (KeyError, ValueError, TypeError):
            continue  # It starts anew, which only delays a deletion.
    deletions = body.get("deletions") or {}
    recent = (moment(text) for text in deletions.get("recent") or [])
    override = deletions.get("overrideUsed")
    return DeletionLedger(
        missing,
        tuple(one for one in recent if one is not None),
        None if override is None else int(override),
    )


def _write_deletions(ledger: DeletionLedger) -> Json | None:
    body: Json = {}
    if ledger.recent:
        body["recent"] = [when(one) for one in ledger.recent]
    if ledger.override_used is not None:
        body["overrideUsed"] = ledger.override_used
    return body or None


def warning_about(found: KnativeSettings) -> str | None:
    """What people should change in Knative, with the command; None where nothing is known to be wrong."""
    plain = Defaults({})
    cap, start = found.max_revision_timeout_seconds, found.response_start_seconds
    chain = time_chain(WakeBudget(), plain.scale_down_delay, plain.window, cap, start)
    told = (
        chain.cap_warning if cap is not None else None,
        chain.start_warning if start is not None else None,
    )
    return "; ".join(filter(None, told)) or None


def _read_knative(body: JsonView) -> KnativeSettings:
    return KnativeSettings(
        allow_zero_initial_scale=body.get("allowZeroInitialScale"),
        pod_is_always_schedulable=body.get("podIsAlwaysSchedulable"),
        max_revision_timeout_seconds=body.get("maxRevisionTimeoutSeconds"),
        domain_template=body.get("domainTemplate"),
        response_start_seconds=body.get("responseStartTimeoutSeconds"),
    )


def _write_knative(found: KnativeSettings) -> Json | None:
    body: Json = {
        "allowZeroInitialScale": found.allow_zero_initial_scale,
        "podIsAlwaysSchedulable": found.pod_is_always_schedulable,
        "maxRevisionTimeoutSeconds": found.max_revision_timeout_seconds,
        "domainTemplate": found.domain_template,
        "responseStartTimeoutSeconds": found.response_start_seconds,
        "warning": warning_about(found),
    }
    return {key: value for key, value in body.items() if value is not None} or None
