"""When an engine counts as deleted in Serval.

One answer proves nothing: lists come back empty during outages and short after a change of credentials. An engine is
gone when a complete list lacks it **and** its own GET answers 404, twice, some minutes apart. If many would go at
once, nothing goes until a person releases that number.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from engine_operator.domain.keys import EngineId


class Lookup(StrEnum):
    """What a GET on the engine itself said."""

    FOUND = "Found"
    NOT_FOUND = "NotFound"
    FORBIDDEN = "Forbidden"
    UNCLEAR = "Unclear"
    """5xx, time-out, 401, or not asked."""


@dataclass(frozen=True)
class DeletionRule:
    """The numbers of the rule."""

    grace: timedelta = timedelta(minutes=10)
    """Least time between the two 404s."""
    guard_count: int = 3
    guard_share: float = 0.2
    """More than max(count, share of the source's engines) within `guard_window` are held."""
    guard_window: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Missing:
    """First and last 404 of one absent engine; kept in the source's status."""

    first: datetime
    last: datetime
    released: bool = False
    """Proven gone and let go: a person's resource stays, and must neither come back nor count again."""


@dataclass(frozen=True)
class DeletionLedger:
    """What the source's status remembers between sweeps."""

    missing: Mapping[EngineId, Missing]
    recent: tuple[datetime, ...] = ()
    """When engines were deleted within the guard's window."""
    override_used: int | None = None
    """The count of the annotation that was spent; only another value, or its removal, allows another mass deletion."""


@dataclass(frozen=True)
class DeletionVerdict:
    """What one sweep may do."""

    gone: tuple[EngineId, ...]
    """Let these go now, or already gone while their resource remains."""
    held: tuple[EngineId, ...]
    """Proven gone, but too many at once."""
    not_ours: tuple[EngineId, ...]
    ledger: DeletionLedger


@dataclass(frozen=True)
class Sweep:
    """What one sweep of a source saw."""

    now: datetime
    listed: Collection[EngineId] | None
    """Ids of a complete list; None if there was none."""
    lookups: Mapping[EngineId, Lookup]
    """Answers for known engines that the list lacks."""
    known: Collection[EngineId]
    """Engines of this source that have a TranslationEngine."""
    override: int | None = None
    """The annotation's count."""


def suspects(known: Iterable[EngineId], listed: Collection[EngineId] | None) -> tuple[EngineId, ...]:
    """Engines to ask for one by one: known, but absent from a complete list."""
    if listed is None:
        return ()
    return tuple(sorted(set(known) - set(listed)))


def judge(sweep: Sweep, ledger: DeletionLedger, rule: DeletionRule) -> DeletionVerdict:
    """Apply the rule to one sweep.

    Only a 404 counts towards deletion, and only while a complete list lacks the engine. An engine that is found or
    listed again loses its record; an unclear answer leaves it as it is.
    """
    absent = suspects(sweep.known, sweep.listed)
    missing = _remembered(sweep, ledger, absent)
    released = tuple(e for e, m in sorted(missing.items()) if m.released and e in sweep.known)
    proven = tuple(
        e
        for e in absent
        if e in missing and not missing[e].released and missing[e].last - missing[e].first >= rule.grace
    )
    recent = tuple(t for t in ledger.recent if sweep.now - t < rule.guard_window)
    used = ledger.override_used if ledger.override_used == sweep.override else None
    limit = max(rule.guard_count, int(rule.guard_share * (len(sweep.known) + len(recent))))
    gone: tuple[EngineId, ...] = ()
    if len(proven) + len(recent) <= limit:
        gone = proven
    elif sweep.override is not None and sweep.override == len(proven) and used is None:
        gone, used = proven, sweep.override
    kept = {e: replace(m, released=m.released or e in gone) for e, m in missing.items()}
    return DeletionVerdict(
        gone=(*gone, *released),
        held=() if gone else proven,
        not_ours=tuple(e for e in absent if sweep.lookups.get(e) is Lookup.FORBIDDEN),
        ledger=DeletionLedger(kept, recent + (sweep.now,) * len(gone), used),
    )


def _remembered(
    sweep: Sweep, ledger: DeletionLedger, absent: Collection[EngineId]
) -> dict[EngineId, Missing]:
    """The record of 404s after this sweep; engines without a resource are forgotten."""
    if sweep.listed is None:
        return {e: m for e, m in ledger.missing.items() if e in sweep.known}
    remembered: dict[EngineId, Missing] = {}
    for engine in absent:
        before, answer = ledger.missing.get(engine), sweep.lookups.get(engine, Lookup.UNCLEAR)
        if answer is Lookup.NOT_FOUND:
            first = before or Missing(sweep.now, sweep.now)
            remembered[engine] = replace(first, last=sweep.now)
        elif answer is Lookup.UNCLEAR and before is not None:
            remembered[engine] = before
    return remembered
