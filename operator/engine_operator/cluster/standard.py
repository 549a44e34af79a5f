"""An engine in KServe's Standard mode, told in the words of the plan: revisions, and which of them has the traffic.

There is a Deployment in place of Knative's objects, and no right to read it is needed: the pods say everything. Pods
that run the same model in the same attempt are one revision, whatever ReplicaSet they are of. A Service sends calls to
every ready pod; so the oldest revision with a ready pod has the traffic until it has none, and a Deployment, which
removes no old pod before a new one is ready, lets no call fail in between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine_operator.domain.observed import ConditionStatus, PodState, RevisionState, ServiceState

DEADLINE = "ProgressDeadlineExceeded"
"""A Deployment's word when a new pod does not get ready; KServe hands it on."""
UNSCHEDULABLE = "Unschedulable"
"""Knative's word, which the plan knows."""


def in_standard_mode(
    service: ServiceState, loaded: Iterable[RevisionState], pods: Sequence[PodState]
) -> tuple[ServiceState, tuple[RevisionState, ...]]:
    """The service with its traffic, and its revisions. `loaded`: what each pod runs, as a revision of its own."""
    found = {one.name: one for one in sorted(loaded, key=lambda one: one.created, reverse=True)}
    revisions = tuple(
        _judged(one, service, pods) for one in sorted(found.values(), key=lambda one: one.created)
    )
    ready = [one.name for one in revisions if one.ready is ConditionStatus.TRUE]
    alive = {pod.knative_revision for pod in pods if not pod.terminating}
    there = [one.name for one in revisions if one.name in alive]
    traffic = next(iter((*ready, *there)), service.all_traffic)
    # An engine that may sleep, and has no pod of what it names, waits for its first call, as with initial scale 0.
    sleeps = service.may_sleep and service.all_traffic not in alive
    return replace(service, all_traffic=traffic, initial_scale=0 if sleeps else 1), revisions


def _judged(revision: RevisionState, service: ServiceState, pods: Sequence[PodState]) -> RevisionState:
    mine = [pod for pod in pods if pod.knative_revision == revision.name and not pod.terminating]
    if any(pod.ready for pod in mine):
        return replace(revision, ready=ConditionStatus.TRUE)
    homeless = next((pod.unschedulable for pod in mine if pod.unschedulable), None)
    if homeless is not None:
        return replace(revision, ready=ConditionStatus.FALSE, reason=UNSCHEDULABLE, message=homeless)
    if service.reason == DEADLINE and revision.manifest_sha256 == service.manifest_sha256:
        return replace(revision, ready=ConditionStatus.FALSE, reason=DEADLINE, message=service.message)
    return revision
