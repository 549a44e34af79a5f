"""Events: one per transition between two statuses, none where nothing changed."""

from engine_operator.domain import reasons
from engine_operator.domain.actions import EmitEvent, EngineRef, EventType
from engine_operator.domain.observed import Condition, ConditionStatus, EngineStatus, Phase


def events_between(ref: EngineRef, old: EngineStatus, new: EngineStatus) -> tuple[EmitEvent, ...]:
    """What to tell on the TranslationEngine when its status goes from `old` to `new`."""
    found = (_started(old, new), _promoted(old, new), _failed(old, new), _availability(old, new))
    return tuple(EmitEvent(ref, *event) for event in found if event is not None)


_Event = tuple[EventType, str, str]


def _started(old: EngineStatus, new: EngineStatus) -> _Event | None:
    before, after = old.target, new.target
    if after is None or after.phase not in (Phase.CONVERTING, Phase.ROLLING_OUT):
        return None
    same = before is not None and before.artifact_key == after.artifact_key
    if same and before is not None and (before.phase, before.attempts) == (after.phase, after.attempts):
        return None
    reason = reasons.CONVERSION_STARTED if after.phase is Phase.CONVERTING else reasons.ROLLOUT_STARTED
    return EventType.NORMAL, reason, f"revision {after.revision}, attempt {after.attempts}"


def retried(old: EngineStatus, new: EngineStatus) -> str | None:
    """Why the attempt before failed, where another one starts between two statuses; None where none does."""
    before, after, failure = old.target, new.target, old.last_failure
    if before is None or after is None or failure is None or before.phase is not Phase.BACKING_OFF:
        return None
    starts = (
        after.phase in (Phase.CONVERTING, Phase.ROLLING_OUT) and before.artifact_key == after.artifact_key
    )
    return failure.reason if starts else None


def _promoted(old: EngineStatus, new: EngineStatus) -> _Event | None:
    if new.serving is None:
        return None
    if old.serving is not None and old.serving.manifest_sha256 == new.serving.manifest_sha256:
        return None
    said = f"revision {new.serving.revision} serves at {new.serving.url}"
    if new.last_swap is not None and new.last_swap != old.last_swap:
        said += f"; calls waited for {new.last_swap.gap_seconds:.0f} s at most"
    return EventType.NORMAL, reasons.PROMOTED, said


def _failed(old: EngineStatus, new: EngineStatus) -> _Event | None:
    failure = new.last_failure
    if failure is None or failure == old.last_failure:
        return None
    rollout = failure.phase is Phase.ROLLING_OUT
    reason = reasons.ROLLOUT_FAILED if rollout else reasons.CONVERSION_FAILED
    return EventType.WARNING, reason, f"revision {failure.revision}: {failure.reason}: {failure.message}"


def _availability(old: EngineStatus, new: EngineStatus) -> _Event | None:
    before, after = _available(old), _available(new)
    if before is None or after is None or before.status is after.status:
        return None
    good = after.status is ConditionStatus.TRUE
    return EventType.NORMAL if good else EventType.WARNING, after.reason, after.message


def _available(status: EngineStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type == "Available"), None)
