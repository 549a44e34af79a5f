"""Revisions that take turns: who has to go first, and how long calls were held meanwhile.

A swap's revision has all traffic before it has a pod; its first pod is made when a call is held, or when the
autoscaler is asked to. So the gap begins with that pod and ends when it is ready.
"""

from datetime import timedelta

from engine_operator.domain.actions import Action, DeleteRevision
from engine_operator.domain.desired import Round
from engine_operator.domain.observed import EngineStatus, Observed, ServingStatus, Swap
from engine_operator.domain.serving import live_service, pods_of

GATEWAYS_AGREE = timedelta(seconds=5)
"""After the first call that one gateway sent to a revision the others know of it as well. Where a pod without a node
makes its revision unready, the route says no more whether they do."""


def make_way(round_: Round) -> tuple[Action, ...]:
    """Delete older revisions whose pods stand in the way of the one that has all traffic and waits for a node.

    Left to itself Knative removes such a pod after its window, a pod that has no node or does not load only after the
    progress deadline, and none while its autoscaler can't ask the pods: calls would wait for all of that. Nothing is
    lost with them: no call reaches them any more, calls under way end within the drain, and what comes back after a
    failure is a new revision. A newer revision is a rollout, and is left alone.
    """
    service = live_service(round_)
    if service is None or service.all_traffic is None:
        return ()
    revisions = round_.observed.revisions
    heir = next((one for one in revisions if one.name == service.all_traffic), None)
    if heir is None or heir.initial_scale > 0:
        return ()
    waits = [pod for pod in pods_of(round_, heir.name) if pod.unschedulable is not None]
    if not any(service.routed or round_.now - pod.created >= GATEWAYS_AGREE for pod in waits):
        return ()
    why = f"its pod stands in the way of {heir.name}, which has all traffic"
    return tuple(
        DeleteRevision(round_.desired.ref, one.name, one.uid, why)
        for one in revisions
        if (one.created, one.name) < (heir.created, heir.name) and pods_of(round_, one.name)
    )


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
