"""Whether a call will be answered: the table behind the condition `Available`."""

from dataclasses import dataclass

from engine_operator.domain import reasons
from engine_operator.domain.desired import Round
from engine_operator.domain.observed import Condition, ConditionStatus, EngineStatus, Known, ServingStatus
from engine_operator.domain.serving import live_service, pods_of, still_held


@dataclass(frozen=True)
class Told:
    """A condition without its times."""

    status: ConditionStatus
    reason: str
    message: str


def told(status: ConditionStatus, reason: str, message: str) -> Told:
    """Make one; reads better in tables."""
    return Told(status, reason, message)


def available(round_: Round, status: EngineStatus, previous: Condition | None) -> Told:
    """The first line that fits, from the facts that outlast pods down to what the pods do."""
    serving, service = status.serving, live_service(round_)
    if round_.desired.engine.suspended:
        return told(ConditionStatus.FALSE, reasons.SUSPENDED, "spec.suspended is true")
    if serving is None:
        return told(ConditionStatus.FALSE, reasons.NEVER_SERVED, _why_never(round_, status))
    if service is None or service.all_traffic is None:
        return told(ConditionStatus.FALSE, reasons.NEVER_SERVED, "no traffic points to any revision")
    if round_.observed.serving_manifest.presence is Known.ABSENT:
        return told(
            ConditionStatus.FALSE, reasons.MODEL_GONE, f"{serving.artifact_key} has no manifest any more"
        )
    if service.all_traffic != serving.knative_revision:
        return told(ConditionStatus.TRUE, reasons.WAKING, "calls wait for the revision that takes over")
    return _wake(serving, round_, previous)


def _wake(serving: ServingStatus, round_: Round, previous: Condition | None) -> Told:
    """What the pods of the serving revision say; a failed wake is remembered until a pod is ready again."""
    pods = pods_of(round_, serving.knative_revision)
    revision = f"revision {serving.revision}"
    if any(pod.ready for pod in pods):
        return told(ConditionStatus.TRUE, reasons.SERVING, revision)
    for pod in pods:
        if pod.failure is not None and not still_held(pod, round_):
            return told(
                ConditionStatus.FALSE, reasons.WAKE_FAILED, f"{pod.failure.reason}: {pod.failure.message}"
            )
    for pod in pods:
        if pod.refused is not None:
            return told(ConditionStatus.FALSE, reasons.NODE_POOL_UNAVAILABLE, pod.refused)
    for pod in pods:
        if pod.unschedulable is not None and round_.now - pod.created > round_.policy.budget.node_boot:
            return told(
                ConditionStatus.FALSE, reasons.WAKE_FAILED, f"no node came in time: {pod.unschedulable}"
            )
    if previous is not None and previous.reason == reasons.WAKE_FAILED and _same_revision(serving, round_):
        return told(ConditionStatus.FALSE, reasons.WAKE_FAILED, previous.message)
    for pod in pods:
        if pod.unschedulable is not None:
            return told(ConditionStatus.TRUE, reasons.WAITING_FOR_NODE, pod.unschedulable)
    if pods:
        return told(ConditionStatus.TRUE, reasons.WAKING, revision)
    return told(ConditionStatus.TRUE, reasons.ASLEEP, revision)


def _same_revision(serving: ServingStatus, round_: Round) -> bool:
    before = round_.observed.status.serving
    return before is not None and before.knative_revision == serving.knative_revision


def _why_never(round_: Round, status: EngineStatus) -> str:
    if round_.desired.verdict is not None:
        return round_.desired.verdict.message
    if status.last_failure is not None:
        return f"{status.last_failure.reason}: {status.last_failure.message}"
    return "no revision has passed its smoke translation yet"
