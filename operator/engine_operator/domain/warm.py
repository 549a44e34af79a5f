"""Keeping the serving revision awake: while a warm window is open, where a person pinned it, or within the warm budget.

The lever is the least scale on the Knative Revision itself: it starts a pod from zero, holds it, and makes no new
revision, as a change of `minReplicas` would. Only the revision that serves is held; one that served before is let go,
and so is everything when a window closes. A paused engine is left as it is.
"""

from datetime import datetime

from engine_operator.domain.actions import Action, HoldRevision
from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus
from engine_operator.domain.room import serving_pods, short_of
from engine_operator.domain.serving import live_service
from engine_operator.domain.windows import Warmth, warmth


def wanted_warmth(round_: Round) -> Warmth:
    """What the engine's windows ask for now."""
    return warmth(round_.now, round_.desired.effective.warm_windows)


def warm_until(round_: Round) -> datetime | None:
    """`status.warmUntil`; it changes when a window opens or closes, never in between."""
    engine = round_.desired.engine
    return None if engine.suspended or engine.paused else wanted_warmth(round_).until


def _asked(round_: Round) -> int:
    """Pods that windows, the pin or the warm budget ask for."""
    kept = round_.desired.engine.keep_warm or round_.observed.kept
    return max(wanted_warmth(round_).replicas, int(kept))


def refused(round_: Round) -> str | None:
    """Why what is asked for may not be woken now; None if it may, or is awake already."""
    asked = min(_asked(round_), round_.desired.effective.serving.max_replicas)
    if round_.policy.mode.standard:
        return None
    if round_.observed.status.serving is None or asked <= serving_pods(round_):
        return None
    return short_of(round_, asked)


def hold(status: EngineStatus, round_: Round) -> tuple[Action, ...]:
    """Hold what serves, let go whatever else we hold."""
    serving, chosen = status.serving, round_.desired.effective.serving
    if live_service(round_) is None or round_.policy.mode.standard:
        return ()
    asked = _asked(round_)
    asked = min(asked, chosen.max_replicas) if asked > chosen.min_replicas else 0
    if asked and refused(round_) is not None:
        asked = 0
    actions: list[Action] = []
    for revision in round_.observed.revisions:
        serves = serving is not None and revision.name == serving.knative_revision
        wish = (asked or None) if serves else None
        if wish != revision.held:
            actions.append(HoldRevision(round_.desired.ref, revision.name, revision.uid, wish))
    return tuple(actions)
