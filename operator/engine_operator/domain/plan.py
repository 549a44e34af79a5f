"""The decision: what to do for one engine, given what is wanted and what is.

Pure, total and idempotent: the same facts give the same actions, and facts in which everything is as wanted give
none. It refuses to wait, to retry and to remember; time comes in as `now`, memory as `status`.
"""

from dataclasses import dataclass
from datetime import datetime

from engine_operator.domain.actions import Action
from engine_operator.domain.engine import Effective, EngineSpec, ObjectStore
from engine_operator.domain.observed import Observed
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import Existence, Verdict


@dataclass(frozen=True)
class Desired:
    """What people and Serval want of one engine."""

    engine: EngineSpec
    effective: Effective
    artifact_store: ObjectStore
    installation: str
    existence: Existence = Existence.UNKNOWN
    """PRESENT for a person's model."""
    model_revision: int | None = None
    """Serval's (0 = never built), or `spec.model.revision`; None = unknown in this round."""
    verdict: Verdict | None = None
    """Why Serval's engine cannot be served; None if it can."""
    model_source: ObjectStore | None = None
    """Exact archive of the wanted revision for bucket access or `spec.model`; None = presigned URL."""


def plan(desired: Desired, observed: Observed, now: datetime, policy: Policy) -> list[Action]:
    """Decide the actions for one engine, in the order in which they are to be done."""
    raise NotImplementedError
