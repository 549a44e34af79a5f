"""How long calls were held while a new revision took the place of one whose pod had to go first.

A swap's revision has all traffic before it has a pod; its first pod is made when a call is held, or when the
autoscaler is asked to. So the gap begins with that pod and ends when it is ready.
"""

from engine_operator.domain.observed import EngineStatus, Observed, ServingStatus, Swap


def swap_between(before: EngineStatus, serving: ServingStatus | None, observed: Observed) -> Swap | None:
    """`status.lastSwap` as it is now: the last one, or the one that has just ended."""
    old = before.serving
    if serving is None or old is None or serving.manifest_sha256 == old.manifest_sha256:
        return before.last_swap
    revision = next((r for r in observed.revisions if r.name == serving.knative_revision), None)
    pods = [p for p in observed.pods if p.knative_revision == serving.knative_revision and p.ready]
    first = min(pods, key=lambda pod: pod.created, default=None)
    if revision is None or revision.initial_scale > 0 or first is None or first.ready_at is None:
        return before.last_swap
    gap = max(0.0, (first.ready_at - first.created).total_seconds())
    return Swap(serving.revision, old.revision, first.created, gap)
