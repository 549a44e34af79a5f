"""Objects of a survey without what nobody reads: a thousand engines as the API sends them are 130 MB of dictionaries.

Refuses to touch what facts are made of; `tests/unit/operator/cluster/test_slim.py` holds it to that.
"""

from engine_operator.cluster.resources import (
    FIELD_MANAGER,
    INFERENCE_SERVICES,
    JOBS,
    PODS,
    REVISIONS,
    Json,
    Resource,
)

_OWNED = (INFERENCE_SERVICES, REVISIONS)
"""Kinds of which we look up which fields are ours."""

_OF_POD = ("env", "volumeMounts", "securityContext", "livenessProbe", "readinessProbe", "startupProbe")
"""Fields of a pod's containers; a pod says what it is by its labels and its status."""


def slim(resource: Resource, item: Json) -> Json:
    """The same object, of which what is not needed is removed in place."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    entries = metadata.pop("managedFields", None) or []
    if resource in _OWNED:
        metadata["managedFields"] = [
            one
            for one in entries
            if (one.get("manager"), one.get("operation")) == (FIELD_MANAGER, "Apply")
            and not one.get("subresource")
        ]
    if resource is JOBS:
        spec.pop("template", None)
    if resource is PODS:
        for name in ("volumes", "tolerations", "affinity"):
            spec.pop(name, None)
        for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
            for name in _OF_POD:
                container.pop(name, None)
    return item
