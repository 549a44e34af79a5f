"""What a cluster's autoscaler says of a pod that has no node: whether one will come, in its own words.

Only Events hold it; the pod's own condition has the scheduler's view, which is the same for a node that is on its way
and for one that will never come. Pure.
"""

from collections.abc import Iterable

from engine_operator.cluster.resources import JsonView

NO, YES = frozenset({"NotTriggerScaleUp"}), frozenset({"TriggeredScaleUp", "Nominated"})
"""Words of the Cluster Autoscaler, and Karpenter's for a node that it has chosen."""

KARPENTER = "karpenter"
"""Says no by the scheduler's own reason."""


def refusal(events: Iterable[JsonView]) -> str | None:
    """The latest word of the autoscaler, if it is a no."""
    told = sorted((_when(one), _answer(one), str(one.get("note") or "")) for one in events if _answer(one))
    if not told or told[-1][1] == "yes":
        return None
    return told[-1][2]


def _answer(event: JsonView) -> str:
    reason = str(event.get("reason") or "")
    if reason in YES:
        return "yes"
    if reason in NO or (reason == "FailedScheduling" and KARPENTER in _source(event)):
        return "no"
    return ""


def _source(event: JsonView) -> str:
    older = (event.get("deprecatedSource") or {}).get("component")
    return str(event.get("reportingController") or older or "")


def _when(event: JsonView) -> str:
    """Last time that it was said; text of the API's times sorts as they do."""
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(
        series
        or event.get("deprecatedLastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
