"""The decision for one ServalSource: which TranslationEngines to make, which to delete, what to tell.

Absence from a list never deletes anything here; that is `deletion`'s rule.
"""

from dataclasses import dataclass, field
from datetime import datetime

from engine_operator.domain.actions import Action
from engine_operator.domain.deletion import DeletionLedger, DeletionVerdict, Lookup
from engine_operator.domain.engine import EngineSpec, SourceSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import Existence, ServalEngine


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
    engines: tuple[EngineSpec, ...] = ()
    """TranslationEngines of this source."""
    owned_elsewhere: frozenset[EngineId] = frozenset()
    """Engine ids that an older source of the same server serves."""
    ledger: DeletionLedger = DeletionLedger({})


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
    raise NotImplementedError
