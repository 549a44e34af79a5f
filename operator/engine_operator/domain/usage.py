"""What an engine cost: seconds that its predictor pods existed, by month.

Kept in status without writing more often: a pod that runs is noted with its start when the status is written anyway (it
is, when a pod comes), and its seconds are added when it is gone (the status is written then, too). A sleeping engine
costs nothing and writes nothing. The figure is late by at most one sweep.
"""

from collections.abc import Iterable
from datetime import datetime

from engine_operator.domain.observed import PodState, Usage


def accounted(old: Usage | None, pods: Iterable[PodState], now: datetime) -> Usage | None:
    """The usage after a look at the pods; None while there is nothing to tell."""
    month = f"{now:%Y-%m}"
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    running = {pod.name: pod.created for pod in pods}
    before = old.running if old is not None else {}
    ended = sum(
        (now - max(start, begin)).total_seconds() for name, start in before.items() if name not in running
    )
    kept = old.pod_seconds if old is not None and old.month == month else 0
    if old is None and not running:
        return None
    return Usage(month, kept + int(ended), running)


def changed(old: Usage | None, new: Usage | None) -> bool:
    """Whether a pod came or went: what is worth a write of its own."""
    return (set(old.running) if old else set()) != (set(new.running) if new else set())
