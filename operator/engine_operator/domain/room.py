"""What one engine's round means for the others: the pods that it has or starts, and the place that it waits for.

The decisions of `capacity` with the facts of a round. Pure, as everything here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine_operator.domain.actions import Action, ApplyInferenceService, HoldRevision
from engine_operator.domain.attempts import due
from engine_operator.domain.capacity import Taken, shortage, taken_by
from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus, Known, Phase
from engine_operator.domain.serval_facts import Existence
from engine_operator.domain.serving import live_service, pods_of


@dataclass(frozen=True)
class Standing:
    """What the other engines have to know of one."""

    priority: int = 0
    taken: Taken = field(default_factory=Taken)
    waits: Phase | None = None
    """It would convert, or roll out, if there were a place."""
    wants: Taken | None = None
    """What it would have instead of `taken` if the quota of its source had room; None if it waits for none."""


def _own(pods: int, round_: Round) -> Taken:
    return taken_by(pods, round_.desired.effective.gpus_per_pod)


def short_of(round_: Round, pods: int) -> str | None:
    """Why this engine may not have so many pods; None if it may."""
    return shortage(round_.desired.quota, round_.observed.taken, _own(pods, round_))


def serving_pods(round_: Round) -> int:
    """Pods of the revision that serves."""
    serving = round_.observed.status.serving
    return len(pods_of(round_, serving.knative_revision)) if serving else 0


def short_for_rollout(round_: Round) -> str | None:
    """Why no pod of a new revision may start beside those that serve; None if one may."""
    return short_of(round_, serving_pods(round_) + 1)


def short_without_swap(round_: Round) -> bool:
    """Whether the new pod would have room if the ones that it replaces went first."""
    return serving_pods(round_) > 0 and short_of(round_, 1) is None and short_for_rollout(round_) is not None


def waits_for(status: EngineStatus, round_: Round) -> Phase | None:
    """What an engine of this status waits for, if nothing but a place, or room in its quota, is missing."""
    target, service = status.target, round_.observed.service
    if target is None or round_.desired.existence is Existence.MISSING or round_.desired.engine.paused:
        return None
    if target.phase is Phase.PENDING:
        ready = round_.observed.storage is None and round_.observed.manifest.presence is Known.ABSENT
        return Phase.CONVERTING if ready else None
    if (service is not None and service.deleting) or round_.refusal is not None:
        return None
    failure = status.last_failure
    if target.phase is Phase.BACKING_OFF and due(target, round_) and failure is not None:
        return Phase.ROLLING_OUT if failure.phase is Phase.ROLLING_OUT else Phase.CONVERTING
    return Phase.ROLLING_OUT if target.phase is Phase.CONVERTED else None


def standing(status: EngineStatus, actions: Iterable[Action], round_: Round) -> Standing:
    """Where an engine stands when `actions` have led to `status`: pods that are on their way count as there."""
    alive = sum(not pod.terminating for pod in round_.observed.pods)
    held = [one.held or 0 for one in round_.observed.revisions]
    service = live_service(round_)
    starts = service is not None and service.initial_scale > 0
    for action in actions:
        if isinstance(action, ApplyInferenceService):
            starts = action.template.initial_scale > 0
        elif isinstance(action, HoldRevision) and action.replicas is not None:
            held.append(action.replicas)
    rolls = status.target is not None and status.target.phase is Phase.ROLLING_OUT
    coming = serving_pods(round_) + 1 if rolls and starts else 0
    taken = _own(max(alive, coming, *held, 0), round_)
    priority, waits = round_.desired.engine.priority, waits_for(status, round_)
    if waits is not Phase.ROLLING_OUT or short_for_rollout(round_) is None:
        return Standing(priority, taken, waits)
    # It takes nobody's turn among those who roll out, and none of its quota where that can never be enough.
    wish = _own(serving_pods(round_) + 1, round_)
    hopeless = shortage(round_.desired.quota, Taken(), wish) is not None
    return Standing(priority, taken, None, None if hopeless else wish)
