"""What a converter's pod asked for, told wherever it got too little: people can raise only a figure that they see.

Pure.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine_operator.cluster.resources import JsonView
from engine_operator.domain import reasons, wire
from engine_operator.domain.observed import ProcessFailure

DISK = "ephemeral-storage"


def sized(failure: ProcessFailure, pod: JsonView) -> ProcessFailure:
    """The same failure; where it was memory or disk, with the reason and the sizes of a conversion."""
    if failure.reason == reasons.OUT_OF_MEMORY:
        return _with_sizes(failure, reasons.CONVERSION_OUT_OF_MEMORY, "memory", pod)
    if failure.reason == reasons.EVICTED and DISK.split("-")[0] in failure.message:
        return _with_sizes(failure, reasons.CONVERSION_OUT_OF_DISK, DISK, pod)
    return failure


def unscheduled(pod: JsonView) -> str | None:
    """Why a pod has no node, with what it asks for; None where it has one, or nobody has looked yet."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            asked = _resources(pod).get("requests") or {}
            wants = ", ".join(f"{asked[name]} of {name}" for name in ("memory", DISK) if name in asked)
            return f"{condition.get('message') or 'no node'} (it asks for {wants})"
    return None


def _with_sizes(failure: ProcessFailure, reason: str, resource: str, pod: JsonView) -> ProcessFailure:
    found = _resources(pod)
    asked, allowed = ((found.get(kind) or {}).get(resource, "nothing") for kind in ("requests", "limits"))
    told = f"{failure.message.rstrip('. ')}; of {resource} it asked for {asked} and was allowed {allowed}"
    return replace(failure, reason=reason, message=told)


def _resources(pod: JsonView) -> Mapping[str, Any]:
    for container in (pod.get("spec") or {}).get("containers") or []:
        if container.get("name") == wire.CONVERTER_CONTAINER:
            found: Mapping[str, Any] = container.get("resources") or {}
            return found
    return {}
