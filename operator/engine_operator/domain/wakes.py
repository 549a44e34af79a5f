"""Cold starts: how long each wake from zero took, read from the conditions of its pod.

Conditions have steps of a second, and are there for as long as the pod is, so that a wake is told once and right,
however late it is seen. What the process itself knows of its phases comes on top where it can be asked.
"""

from collections.abc import Mapping

from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus, Observed, PodState, Wake

KEPT = 20
"""Wakes that the status keeps: enough for a p95, few enough to read."""

INSIDE = ("python", "download", "load", "warm")
"""Phases that a process tells of itself, in order."""


def told_wakes(round_: Round) -> tuple[Wake, ...]:
    """`status.coldStarts` as it is now: the last wakes, and the one that has just ended."""
    status = round_.observed.status
    pod = wake_to_tell(status, round_.observed)
    wakes = status.cold_starts if pod is None else (*status.cold_starts, wake_of(pod))
    return wakes[-KEPT:]


def wake_to_tell(status: EngineStatus, observed: Observed) -> PodState | None:
    """The pod that ended a wake which nobody has told yet.

    Of the serving revision, since the first pod of a rollout makes nobody wait; and made while there was no other, as
    a pod that joins another makes nobody wait either.
    """
    serving = status.serving
    if serving is None:
        return None
    after = max((wake.at for wake in status.cold_starts), default=serving.since)
    pods = [p for p in observed.pods if p.knative_revision == serving.knative_revision and not p.terminating]
    first = min(pods, key=lambda p: p.created, default=None)
    if first is None or not first.ready or first.ready_at is None:
        return None
    return first if first.created > max(after, serving.since) else None


def wake_of(pod: PodState) -> Wake:
    """Its phases; a step whose end is not told belongs to the next one."""
    phases: dict[str, float] = {}
    reached = pod.created
    for name, end in (("node", pod.scheduled_at), ("pull", pod.started_at)):
        if end is not None:
            phases[name] = max(0.0, (end - reached).total_seconds())
            reached = max(reached, end)
    inside = {name: pod.phases[name] for name in INSIDE if name in pod.phases}
    rest = (pod.ready_at - reached).total_seconds() if pod.ready_at is not None else 0.0
    return Wake(pod.created, {**phases, **inside, "ready": max(0.0, rest - sum(inside.values()))})


def phases_of(told: object) -> Mapping[str, float]:
    """What a process tells of its phases, as far as it can be read."""
    if not isinstance(told, Mapping):
        return {}
    return {
        name: float(told[name])
        for name in INSIDE
        if isinstance(told.get(name), int | float) and not isinstance(told[name], bool) and told[name] >= 0
    }
