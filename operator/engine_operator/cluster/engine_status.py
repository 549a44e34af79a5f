"""`status` of a TranslationEngine, to JSON and back.

Both directions live beside each other, so that nothing is written that the next start could not read. What can't be
read (an older version's field) is dropped: status is rebuilt from the cluster and the store.
"""

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from engine_operator.cluster.facts import moment
from engine_operator.cluster.resources import Json, JsonView
from engine_operator.domain.engine import Protocol
from engine_operator.domain.keys import ArtifactKey
from engine_operator.domain.observed import (
    AppliedStatus,
    Condition,
    ConditionStatus,
    EngineStatus,
    Failure,
    Phase,
    ServingStatus,
    Swap,
    TargetStatus,
    Usage,
    Wake,
)

T = TypeVar("T")
log = logging.getLogger(__name__)


def when(value: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_engine_status(body: JsonView) -> EngineStatus:
    """Status as last written; an empty one if there is none."""
    wakes = (body.get("coldStarts") or {}).get("wakes") or []
    return EngineStatus(
        observed_generation=int(body.get("observedGeneration") or 0),
        serving=_optional(_read_serving, body.get("serving")),
        target=_optional(_read_target, body.get("target")),
        last_failure=_optional(_read_failure, body.get("lastFailure")),
        applied=_optional(_read_applied, body.get("applied")),
        cold_starts=tuple(wake for one in wakes if (wake := _optional(_read_wake, one)) is not None),
        last_swap=_optional(_read_swap, body.get("lastSwap")),
        usage=_optional(_read_usage, body.get("usage")),
        warm_until=moment(body.get("warmUntil")),
        effective={str(key): str(value) for key, value in (body.get("effective") or {}).items()},
        conditions=read_conditions(body),
    )


def write_engine_status(status: EngineStatus) -> Json:
    """The whole status, for a server-side apply of the status subresource: what is left out is removed."""
    body: Json = {
        "observedGeneration": status.observed_generation,
        "serving": _write_serving(status.serving) if status.serving else None,
        "target": _write_target(status.target) if status.target else None,
        "lastFailure": _write_failure(status.last_failure) if status.last_failure else None,
        "applied": _write_applied(status.applied) if status.applied else None,
        "coldStarts": _write_wakes(status.cold_starts) if status.cold_starts else None,
        "lastSwap": _write_swap(status.last_swap) if status.last_swap else None,
        "usage": _write_usage(status.usage) if status.usage else None,
        "warmUntil": when(status.warm_until) if status.warm_until else None,
        "effective": dict(status.effective) or None,
        "conditions": write_conditions(status.conditions),
    }
    return {key: value for key, value in body.items() if value is not None}


def read_conditions(body: JsonView) -> tuple[Condition, ...]:
    """`conditions` of either kind."""
    found = (_optional(_read_condition, one) for one in body.get("conditions") or [])
    return tuple(condition for condition in found if condition is not None)


def write_conditions(conditions: tuple[Condition, ...]) -> list[Json]:
    """`conditions` of either kind."""
    return [
        {
            "type": one.type,
            "status": one.status.value,
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": when(one.last_transition),
            "observedGeneration": one.observed_generation,
        }
        for one in conditions
    ]


def time_of(body: JsonView, field: str) -> datetime:
    """A time that must be there."""
    found = moment(body.get(field))
    if found is None:
        raise KeyError(field)
    return found


def _optional(read: Callable[[JsonView], T], body: Any) -> T | None:
    if not body:
        return None
    try:
        return read(body)
    except (KeyError, ValueError, TypeError) as error:
        log.warning("a part of a status can't be read and is rebuilt: %s %s", type(error).__name__, error)
        return None


def _key(text: Any) -> ArtifactKey:
    key = ArtifactKey.parse(str(text))
    if key is None:
        raise ValueError(f"artifactKey {text!r}")
    return key


def _read_serving(body: JsonView) -> ServingStatus:
    return ServingStatus(
        revision=int(body["revision"]),
        url=str(body.get("url") or ""),
        protocol=Protocol(body["protocol"]),
        model_name=str(body["modelName"]),
        since=time_of(body, "since"),
        knative_revision=str(body["knativeRevision"]),
        manifest_sha256=str(body["manifestSha256"]),
        artifact_key=_key(body["artifactKey"]),
        runtime_image=str(body["runtimeImage"]),
    )


def _write_serving(serving: ServingStatus) -> Json:
    return {
        "revision": serving.revision,
        "url": serving.url,
        "protocol": serving.protocol.value,
        "modelName": serving.model_name,
        "since": when(serving.since),
        "knativeRevision": serving.knative_revision,
        "manifestSha256": serving.manifest_sha256,
        "artifactKey": str(serving.artifact_key),
        "runtimeImage": serving.runtime_image,
    }


def _read_target(body: JsonView) -> TargetStatus:
    return TargetStatus(
        revision=int(body["revision"]),
        artifact_key=_key(body["artifactKey"]),
        phase=Phase(body["phase"]),
        attempts=int(body.get("attempts") or 0),
        next_retry=moment(body.get("nextRetry")),
        retry_token=body.get("retryToken"),
    )


def _write_target(target: TargetStatus) -> Json:
    body: Json = {
        "revision": target.revision,
        "artifactKey": str(target.artifact_key),
        "phase": target.phase.value,
        "attempts": target.attempts,
    }
    if target.next_retry is not None:
        body["nextRetry"] = when(target.next_retry)
    if target.retry_token is not None:
        body["retryToken"] = target.retry_token
    return body


def _read_failure(body: JsonView) -> Failure:
    return Failure(
        revision=int(body["revision"]),
        phase=Phase(body["phase"]),
        reason=str(body["reason"]),
        message=str(body.get("message") or ""),
        at=time_of(body, "at"),
    )


def _write_failure(failure: Failure) -> Json:
    return {
        "revision": failure.revision,
        "phase": failure.phase.value,
        "reason": failure.reason,
        "message": failure.message,
        "at": when(failure.at),
    }


def _read_applied(body: JsonView) -> AppliedStatus:
    return AppliedStatus(str(body["templateHash"]), str(body["ownedHash"]), bool(body.get("reclaimed")))


def _write_applied(applied: AppliedStatus) -> Json:
    body: Json = {"templateHash": applied.template_hash, "ownedHash": applied.owned_hash}
    return body | {"reclaimed": True} if applied.reclaimed else body


def _read_wake(body: JsonView) -> Wake:
    return Wake(time_of(body, "at"), {str(key): float(value) for key, value in body["phases"].items()})


def _write_wakes(wakes: tuple[Wake, ...]) -> Json:
    totals = sorted(sum(wake.phases.values()) for wake in wakes)
    return {
        "p50Seconds": _round(_percentile(totals, 0.5)),
        "p95Seconds": _round(_percentile(totals, 0.95)),
        "wakes": [
            {"at": when(wake.at), "phases": {key: _round(value) for key, value in wake.phases.items()}}
            for wake in wakes
        ],
    }


def _read_swap(body: JsonView) -> Swap:
    return Swap(
        revision=int(body["revision"]),
        replaced=int(body["replaced"]),
        at=time_of(body, "at"),
        gap_seconds=float(body["gapSeconds"]),
    )


def _write_swap(swap: Swap) -> Json:
    return {
        "revision": swap.revision,
        "replaced": swap.replaced,
        "at": when(swap.at),
        "gapSeconds": _round(swap.gap_seconds),
    }


def _read_usage(body: JsonView) -> Usage:
    running = body.get("running") or {}
    return Usage(
        month=str(body["month"]),
        pod_seconds=int(body["podSeconds"]),
        running={str(name): time_of(running, name) for name in running},
    )


def _write_usage(usage: Usage) -> Json:
    body: Json = {"month": usage.month, "podSeconds": usage.pod_seconds}
    running = {name: when(start) for name, start in usage.running.items()}
    return body | {"running": running} if running else body


def _percentile(ordered: list[float], share: float) -> float:
    """Nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _round(seconds: float) -> float:
    return round(seconds, 3)


def _read_condition(body: JsonView) -> Condition:
    return Condition(
        type=str(body["type"]),
        status=ConditionStatus(body["status"]),
        reason=str(body.get("reason") or ""),
        message=str(body.get("message") or ""),
        last_transition=time_of(body, "lastTransitionTime"),
        observed_generation=int(body.get("observedGeneration") or 0),
    )
