"""The decision for one ServalSource: which TranslationEngines to make, which to delete, what to tell.

Absence from a list never deletes anything here; that is `deletion`'s rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from engine_operator.domain import reasons
from engine_operator.domain.actions import Action, ApplyEngine, DeleteEngine, EngineRef
from engine_operator.domain.deletion import DeletionLedger, DeletionVerdict, Lookup, Sweep, judge
from engine_operator.domain.engine import EngineSpec, SourceSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.names import discovered_name, require_name
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import Existence, ServalEngine, Verdict, servable
from engine_operator.errors import NameTooLong


@dataclass(frozen=True)
class Skipped:
    """An engine that gets no TranslationEngine, and why."""

    engine_id: EngineId
    name: str
    reason: str
    message: str


@dataclass(frozen=True)
class SourceView:
    """What one sweep knows about a source."""

    source: SourceSpec
    listed: tuple[ServalEngine, ...] | None
    """A complete answer of `GET /engines`; None if there was none."""
    lookups: dict[EngineId, Lookup] = field(default_factory=dict)
    """Answers of engines that were asked for one by one: absent ones, and those that are new."""
    engines: tuple[EngineSpec, ...] = ()
    """TranslationEngines of this source."""
    owned_elsewhere: frozenset[EngineId] = frozenset()
    """Engine ids that an older source of the same server serves."""
    ledger: DeletionLedger = field(default_factory=lambda: DeletionLedger({}))


@dataclass(frozen=True)
class SourcePlan:
    """What one sweep of a source leads to."""

    actions: tuple[Action, ...]
    """ApplyEngine and DeleteEngine only."""
    skipped: tuple[Skipped, ...]
    deletion: DeletionVerdict
    existence: dict[EngineId, Existence]
    """Of every engine that has a TranslationEngine: input of its `Desired`."""
    servable: int = 0


def plan_source(view: SourceView, now: datetime, policy: Policy) -> SourcePlan:
    """Decide what the sweep makes and deletes."""
    listed = view.listed or ()
    skipped, wanted = _sorted_out(view, listed)
    known = {e.engine_id: e for e in view.engines}
    sweep = Sweep(
        now=now,
        listed=None if view.listed is None else frozenset(e.id for e in listed),
        lookups=view.lookups,
        known=frozenset(known),
        override=view.source.allow_mass_deletion,
    )
    deletion = judge(sweep, view.ledger, policy.deletion)
    made = tuple(
        ApplyEngine(discovered_name(e.id), view.source.namespace, view.source.name, view.source.uid, e.id)
        for e in wanted
        if e.id not in known
    )
    removed = tuple(
        DeleteEngine(
            EngineRef(engine.name, engine.namespace, engine.uid), engine.engine_id, reasons.ENGINE_GONE
        )
        for engine in (known[e] for e in deletion.gone)
        if engine.operator_made
    )
    existence = {e: _existence(e, sweep, deletion) for e in known}
    return SourcePlan((*made, *removed), skipped, deletion, existence, len(wanted))


def _sorted_out(
    view: SourceView, listed: Iterable[ServalEngine]
) -> tuple[tuple[Skipped, ...], tuple[ServalEngine, ...]]:
    """Split a list into engines that get no resource, with their reasons, and those that do."""
    skipped: list[Skipped] = []
    wanted: list[ServalEngine] = []
    for engine in sorted(listed, key=lambda e: e.id):
        verdict = _verdict(engine, view)
        if denied(engine.id, view):
            continue  # The list is older than the engine's end: it must not come back.
        if verdict is None:
            wanted.append(engine)
        else:
            skipped.append(Skipped(engine.id, engine.name, verdict.reason, verdict.message))
    return tuple(skipped), tuple(wanted)


def denied(engine: EngineId, view: SourceView) -> bool:
    """Whether Serval, asked for a listed engine itself, does not have it."""
    return view.lookups.get(engine) in (Lookup.NOT_FOUND, Lookup.FORBIDDEN)


def newcomers(view: SourceView) -> tuple[EngineId, ...]:
    """Engines that would get a resource by the list alone; each is asked for once before it does."""
    known = {engine.engine_id for engine in view.engines}
    _, wanted = _sorted_out(view, view.listed or ())
    return tuple(engine.id for engine in wanted if engine.id not in known)


def newly_skipped(old: tuple[Skipped, ...], new: tuple[Skipped, ...]) -> tuple[Skipped, ...]:
    """What there is to tell of skipped engines: each once for each reason."""
    told = {(one.engine_id, one.reason) for one in old}
    return tuple(one for one in new if (one.engine_id, one.reason) not in told)


def _verdict(engine: ServalEngine, view: SourceView) -> Verdict | None:
    if engine.id in view.owned_elsewhere:
        return Verdict(
            reasons.ENGINE_OWNED_ELSEWHERE, "an older ServalSource of the same Serval serves this engine"
        )
    verdict = servable(engine, view.source.selector)
    if verdict is not None:
        return verdict
    try:
        require_name(discovered_name(engine.id), view.source.namespace)
    except NameTooLong as refusal:
        return Verdict(reasons.NAME_TOO_LONG, str(refusal))
    return None


def _existence(engine: EngineId, sweep: Sweep, deletion: DeletionVerdict) -> Existence:
    """What one sweep knows of an engine; a person's resource of a gone engine stays gone while the 404s last."""
    if sweep.listed is not None and engine in sweep.listed:
        return Existence.PRESENT
    if engine in deletion.gone:
        return Existence.GONE
    if engine in deletion.not_ours:
        return Existence.NOT_OURS
    if engine in deletion.ledger.missing:
        return Existence.MISSING
    return Existence.UNKNOWN
