"""Which revision serves, read from Knative's facts alone.

A revision serves when it has all traffic, is ready, and has translated its probes. Readiness contains the probes, so
a revision that started with a pod has passed by being ready. One that started with no pod (initial scale 0) is ready
without having tried: it counts once a pod of it was ready, or if it runs the model that served before.
"""

from engine_operator.domain.desired import Round
from engine_operator.domain.observed import (
    ConditionStatus,
    PodState,
    RevisionState,
    ServiceState,
    ServingStatus,
)

DEVICE_FULL = "out of memory"
"""How CUDA words it, in the predictor's last line. The kernel's own end of a process has other words."""


def live_service(round_: Round) -> ServiceState | None:
    """The InferenceService, unless it is on its way out."""
    service = round_.observed.service
    return None if service is None or service.deleting else service


def pods_of(round_: Round, knative_revision: str) -> tuple[PodState, ...]:
    """Pods of one Knative revision that are not on their way out."""
    pods = round_.observed.pods
    return tuple(p for p in pods if p.knative_revision == knative_revision and not p.terminating)


def still_held(pod: PodState, round_: Round) -> bool:
    """Whether a pod failed only because the device that it was given is not free yet.

    The scheduler hands a GPU on when the pod before has ended; the driver gives its memory back some seconds later.
    Kubernetes starts the container again by itself.
    """
    if pod.failure is None or DEVICE_FULL not in pod.failure.message.lower():
        return False
    return round_.now - (pod.scheduled_at or pod.created) <= round_.policy.device_release


def proven(revision: RevisionState, round_: Round) -> bool:
    """Whether this revision has passed its smoke translation."""
    if revision.initial_scale > 0:
        return True
    serving = round_.observed.status.serving
    if serving is None:
        return True  # Its status was lost: initial scale 0 is never used for a first revision.
    if (serving.revision, serving.manifest_sha256) == (revision.model_revision, revision.manifest_sha256):
        return True
    return any(pod.ready for pod in pods_of(round_, revision.name))


def serving_of(round_: Round) -> ServingStatus | None:
    """The serving record as it is now; the last good one while traffic points nowhere or to an unproven revision."""
    old = round_.observed.status.serving
    service = live_service(round_)
    if service is None or service.all_traffic is None:
        return old
    revision = next((r for r in round_.observed.revisions if r.name == service.all_traffic), None)
    if revision is None or revision.artifact_key is None or not revision.manifest_sha256:
        return old
    known = old is not None and old.knative_revision == revision.name
    if not known and not (revision.ready is ConditionStatus.TRUE and proven(revision, round_)):
        return old
    # KServe tells the address a moment later than the traffic; without it clients could not follow.
    if not (service.url or (old and old.url)):
        return old
    same_model = old is not None and old.manifest_sha256 == revision.manifest_sha256
    return ServingStatus(
        revision=revision.model_revision,
        url=service.url or (old.url if old else ""),
        protocol=round_.desired.effective.serving.protocol,
        model_name=round_.desired.engine.name,
        since=old.since if old is not None and same_model else round_.now,
        knative_revision=revision.name,
        manifest_sha256=revision.manifest_sha256,
        artifact_key=revision.artifact_key,
        runtime_image=revision.runtime_image,
    )
