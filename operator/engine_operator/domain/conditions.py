"""The six conditions of a TranslationEngine, from facts.

`Available` says whether a call will be answered, now or after a wake; it depends neither on pods nor on the
InferenceService's own `Ready`, which turns False during every normal cold start on an autoscaled GPU pool. Messages
hold no elapsed times, so that a status changes only when a fact does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from engine_operator.domain import reasons, warm
from engine_operator.domain.availability import Told, available, told
from engine_operator.domain.desired import Desired, Round
from engine_operator.domain.engine import Strategy
from engine_operator.domain.observed import (
    Condition,
    ConditionStatus,
    EngineStatus,
    JobPhase,
    Known,
    Observed,
    Phase,
)
from engine_operator.domain.policy import Policy
from engine_operator.domain.room import short_for_rollout
from engine_operator.domain.serval_facts import Existence

AVAILABLE = "Available"
UP_TO_DATE = "UpToDate"
PROGRESSING = "Progressing"
MODEL_CONVERTED = "ModelConverted"
STORAGE_READY = "StorageReady"
DEGRADED = "Degraded"

MESSAGE_MAX = 1024
"""Characters of a message; longer ones are cut."""


def conditions_of(
    desired: Desired, observed: Observed, status: EngineStatus, now: datetime, policy: Policy
) -> tuple[Condition, ...]:
    """Return all six; times of unchanged ones are kept from `observed.status`."""
    view = _View(Round(desired, observed, now, policy), status)
    return tuple(_stamped(kind, table(view), view) for kind, table in _TABLES)


@dataclass(frozen=True)
class _View:
    """Facts and the new status."""

    round: Round
    status: EngineStatus

    def previous(self, kind: str) -> Condition | None:
        return next((c for c in self.round.observed.status.conditions if c.type == kind), None)


def _stamped(kind: str, said: Told | None, view: _View) -> Condition:
    """Make the condition; None keeps the previous one, since this round has nothing to say."""
    old = view.previous(kind)
    if said is None:
        if old is not None:
            return old
        said = told(
            ConditionStatus.UNKNOWN, reasons.STORAGE_UNKNOWN, "the artifact store has not been asked yet"
        )
    since = old.last_transition if old is not None and old.status is said.status else view.round.now
    generation = view.round.desired.engine.generation
    return Condition(kind, said.status, said.reason, said.message[:MESSAGE_MAX], since, generation)


def _available(view: _View) -> Told:
    return available(view.round, view.status, view.previous(AVAILABLE))


def _up_to_date(view: _View) -> Told:
    desired, serving, wanted = view.round.desired, view.status.serving, view.round.wanted
    blocked = _blocked(desired)
    if blocked is not None:
        return told(ConditionStatus.FALSE, blocked.reason, blocked.message)
    if desired.engine.pinned is None and desired.model_revision is None:
        problem = view.round.observed.source_problem
        return told(
            ConditionStatus.UNKNOWN,
            reasons.REVISION_UNKNOWN,
            problem.message if problem else "Serval was not asked",
        )
    if serving is None:
        return told(ConditionStatus.FALSE, reasons.NEVER_SERVED, f"revision {wanted} is wanted, none serves")
    if serving.revision == wanted:
        reason = reasons.CURRENT if desired.engine.pinned is None else reasons.PINNED
        return told(ConditionStatus.TRUE, reason, f"revision {wanted}")
    return told(
        ConditionStatus.FALSE, reasons.NEWER_MODEL, f"revision {wanted} is wanted, {serving.revision} serves"
    )


def _progressing(view: _View) -> Told:
    desired, target = view.round.desired, view.status.target
    if desired.engine.paused:
        return told(ConditionStatus.FALSE, reasons.PAUSED, "spec.paused is true")
    dying = _dying(view)
    if dying is not None:
        return dying
    if desired.engine.suspended:
        return told(ConditionStatus.FALSE, reasons.SUSPENDED, "spec.suspended is true")
    if target is None:
        blocked = _blocked(desired)
        return told(
            ConditionStatus.FALSE, reasons.IDLE, blocked.message if blocked else "no revision is wanted"
        )
    if target.phase is Phase.SERVING:
        return told(ConditionStatus.FALSE, reasons.SERVING, f"revision {target.revision}")
    if target.phase is Phase.BACKING_OFF and target.next_retry is None:
        return told(ConditionStatus.FALSE, reasons.RETRIES_EXHAUSTED, _last(view))
    if view.round.refusal is not None:
        return told(ConditionStatus.FALSE, reasons.MODE_UNSUPPORTED, view.round.refusal)
    zero = view.round.observed.knative.allow_zero_initial_scale
    recreate = desired.effective.rollout.strategy is Strategy.RECREATE
    if recreate and zero is False and not view.round.policy.mode.standard:
        return told(
            ConditionStatus.FALSE,
            reasons.ZERO_INITIAL_SCALE_DISABLED,
            'config-autoscaler lacks allow-zero-initial-scale: "true"; calls fail while the service is made again',
        )
    short = short_for_rollout(view.round) if target.phase is Phase.CONVERTED else None
    if short is not None:
        said = f"revision {target.revision} is converted and waits: {short}"
        return told(ConditionStatus.TRUE, reasons.QUOTA_EXCEEDED, said)
    refused = next((p.refused for p in view.round.observed.pods if p.refused), None)
    if target.phase is Phase.ROLLING_OUT and refused is not None:
        said = f"revision {target.revision}, attempt {target.attempts}: {refused}"
        return told(ConditionStatus.TRUE, reasons.NODE_POOL_UNAVAILABLE, said)
    return told(ConditionStatus.TRUE, target.phase.value, _progress_message(view))


def held_up(status: EngineStatus, round_: Round, reason: str, message: str) -> EngineStatus:
    """The status while something beside the engine holds up what is to be done: the same but for `Progressing`."""
    view = _View(round_, status)
    waits = _stamped(PROGRESSING, told(ConditionStatus.TRUE, reason, message), view)
    others = tuple(one for one in status.conditions if one.type != PROGRESSING)
    order = [kind for kind, _ in _TABLES]
    return replace(status, conditions=tuple(sorted((*others, waits), key=lambda one: order.index(one.type))))


def _dying(view: _View) -> Told | None:
    """What holds an InferenceService that is being deleted; None where none is."""
    service = view.round.observed.service
    if service is None or not service.deleting:
        return None
    held = ", ".join(service.holds_deletion) or "its pods"
    name = view.round.desired.engine.name
    return told(ConditionStatus.TRUE, reasons.DELETING, f"InferenceService {name} waits for {held}")


def _no_node(waiting: str | None, since: datetime) -> str:
    """Why a pod has no node, and since when: a point in time, so that the message stays while the fact does."""
    return f"; {reasons.WAITING_FOR_NODE} since {since:%Y-%m-%dT%H:%M:%SZ}: {waiting}"


def _progress_message(view: _View) -> str:
    target = view.status.target
    if target is None:
        return ""
    revision = f"revision {target.revision}"
    if target.phase is Phase.BACKING_OFF and target.next_retry is not None:
        return f"{revision}: attempt {target.attempts} failed, next at {target.next_retry:%Y-%m-%dT%H:%M:%SZ}"
    if target.phase is Phase.ROLLING_OUT:
        pod = next((p for p in view.round.observed.pods if p.unschedulable), None)
        held = _no_node(pod.unschedulable, pod.created) if pod else ""
        return f"{revision}, attempt {target.attempts}{held}"
    if target.phase is Phase.CONVERTING:
        job = next((j for j in view.round.observed.jobs if j.unschedulable), None)
        held = _no_node(job.unschedulable, job.created) if job else ""
        return f"{revision}, attempt {target.attempts}{held}"
    if target.phase is Phase.PENDING and view.round.observed.storage is not None:
        return f"{revision} waits for the artifact store: {view.round.observed.storage.message}"
    return f"{revision}, attempt {target.attempts}" if target.attempts else revision


def _model_converted(view: _View) -> Told | None:
    target, observed = view.status.target, view.round.observed
    if target is None:
        return told(ConditionStatus.UNKNOWN, reasons.IDLE, "no revision is wanted")
    match observed.manifest.presence:
        case Known.PRESENT:
            return told(ConditionStatus.TRUE, reasons.CONVERTED, str(target.artifact_key))
        case Known.UNKNOWN:
            return None
        case Known.ABSENT:
            return _not_converted(view)


def _not_converted(view: _View) -> Told:
    target, jobs = view.status.target, view.round.observed.jobs
    if target is not None:
        alive = [j for j in jobs if j.artifact_key == target.artifact_key and j.phase is not JobPhase.FAILED]
        if alive or target.phase is Phase.CONVERTING:
            return told(ConditionStatus.FALSE, reasons.CONVERTING, f"revision {target.revision}")
        if target.phase is Phase.BACKING_OFF:
            return told(ConditionStatus.FALSE, reasons.CONVERSION_FAILED, _last(view))
    return told(ConditionStatus.FALSE, reasons.NOT_CONVERTED, "there is no manifest in the artifact store")


def _storage_ready(view: _View) -> Told | None:
    observed = view.round.observed
    if observed.storage is not None:
        return told(ConditionStatus.FALSE, observed.storage.reason, observed.storage.message)
    if Known.UNKNOWN is observed.manifest.presence is observed.serving_manifest.presence:
        return None
    return told(ConditionStatus.TRUE, reasons.STORAGE_REACHABLE, view.round.desired.artifact_store.uri)


def _degraded(view: _View) -> Told:
    desired, target, status = view.round.desired, view.status.target, view.status
    blocked = _blocked(desired)
    if blocked is not None:
        return told(ConditionStatus.TRUE, blocked.reason, blocked.message)
    service, applied = view.round.observed.service, status.applied
    overwritten = service is not None and applied is not None and applied.owned_hash != service.owned_hash
    if overwritten and applied is not None and applied.reclaimed:
        return told(
            ConditionStatus.TRUE,
            reasons.FOREIGN_FIELD_OWNER,
            "another manager overwrites fields of the InferenceService",
        )
    if target is not None and view.round.refusal is not None and not desired.engine.suspended:
        return told(ConditionStatus.TRUE, reasons.MODE_UNSUPPORTED, view.round.refusal)
    asleep = warm.refused(view.round)
    if asleep is not None and not desired.engine.suspended and not desired.engine.paused:
        said = f"it should be awake and is not: {asleep}"
        return told(ConditionStatus.TRUE, reasons.QUOTA_EXCEEDED, said)
    failure = status.last_failure
    if (
        target is None
        or failure is None
        or target.phase is Phase.SERVING
        or failure.revision != target.revision
    ):
        return told(ConditionStatus.FALSE, reasons.AS_EXPECTED, "")
    if target.phase is Phase.BACKING_OFF and target.next_retry is None:
        return told(ConditionStatus.TRUE, reasons.RETRIES_EXHAUSTED, _last(view))
    rollout = failure.phase is Phase.ROLLING_OUT
    reason = reasons.ROLLOUT_FAILED if rollout else reasons.CONVERSION_FAILED
    return told(ConditionStatus.TRUE, reason, _last(view))


def _blocked(desired: Desired) -> Told | None:
    """Why no revision can be wanted at all."""
    if desired.existence is Existence.GONE:
        return told(ConditionStatus.TRUE, reasons.ENGINE_GONE, "the engine was deleted in Serval")
    if desired.existence is Existence.NOT_OURS:
        return told(ConditionStatus.TRUE, reasons.NOT_OURS, "Serval answers 403 for this engine")
    if desired.verdict is not None:
        return told(ConditionStatus.TRUE, desired.verdict.reason, desired.verdict.message)
    return None


def _last(view: _View) -> str:
    failure = view.status.last_failure
    return f"revision {failure.revision}: {failure.reason}: {failure.message}" if failure else ""


_TABLES: tuple[tuple[str, Callable[[_View], Told | None]], ...] = (
    (AVAILABLE, _available),
    (UP_TO_DATE, _up_to_date),
    (PROGRESSING, _progressing),
    (MODEL_CONVERTED, _model_converted),
    (STORAGE_READY, _storage_ready),
    (DEGRADED, _degraded),
)
