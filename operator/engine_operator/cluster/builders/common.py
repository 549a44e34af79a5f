"""Pieces that several objects share: metadata, restricted containers, access to an object store."""

from typing import Any

from engine_operator.domain import wire
from engine_operator.domain.actions import EngineRef
from engine_operator.domain.engine import ObjectStore, Resources, Toleration

Json = dict[str, Any]

CACHE_DIR = "/var/cache/serval-live"
CA_DIR = "/etc/serval-live/ca"
CA_KEY = "ca.crt"
STORE_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Keys of a store's Secret; the last is optional."""


def labels(engine: EngineRef, component: str) -> Json:
    """Labels of everything made for an engine."""
    return {
        wire.LABEL_ENGINE: engine.name,
        wire.LABEL_MANAGED_BY: wire.MANAGED_BY,
        wire.LABEL_COMPONENT: component,
    }


def owned_by_engine(engine: EngineRef) -> list[Json]:
    """Owner reference that lets the garbage collector remove an object with its TranslationEngine."""
    return [
        {
            "apiVersion": wire.API_VERSION,
            "kind": "TranslationEngine",
            "name": engine.name,
            "uid": engine.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


def restricted() -> Json:
    """Security context of the "restricted" Pod Security Standard, for a container and any user id.

    On the container, because Knative refuses a pod's security context unless a feature flag allows it.
    """
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def variable(name: str, value: object) -> Json:
    """A plain environment variable."""
    return {"name": name, "value": str(value)}


def secret_variable(name: str, secret: str, key: str, optional: bool = False) -> Json:
    """An environment variable from a Secret."""
    reference: Json = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def store_environment(
    store: ObjectStore, secret: str | None, prefix: str = "", mount: str = CA_DIR
) -> list[Json]:
    """Environment that opens an object store.

    `prefix` tells a second store in one container from the first: `SOURCE_` gives `SERVAL_LIVE_SOURCE_S3_ENDPOINT`
    and `SERVAL_LIVE_SOURCE_AWS_ACCESS_KEY_ID`, where the first has `SERVAL_LIVE_S3_ENDPOINT` and AWS's own names.
    """
    environment: list[Json] = []
    if store.endpoint:
        environment.append(variable(f"SERVAL_LIVE_{prefix}S3_ENDPOINT", store.endpoint))
    if store.region:
        environment.append(variable(f"SERVAL_LIVE_{prefix}S3_REGION", store.region))
    if store.ca_config_map:
        environment.append(variable(f"SERVAL_LIVE_{prefix}S3_CA_FILE", f"{mount}/{CA_KEY}"))
    if secret:
        named = f"SERVAL_LIVE_{prefix}" if prefix else ""
        environment += [
            secret_variable(f"{named}{key}", secret, key, optional=key == "AWS_SESSION_TOKEN")
            for key in STORE_KEYS
        ]
    return environment


def scratch_volume(name: str, size_limit: str | None = None) -> Json:
    """An empty directory; the only writable places of a container."""
    return {"name": name, "emptyDir": {"sizeLimit": size_limit} if size_limit else {}}


def authority_volume(name: str, config_map: str) -> Json:
    """The certificate authority of a private store."""
    return {"name": name, "configMap": {"name": config_map, "items": [{"key": CA_KEY, "path": CA_KEY}]}}


def mount(volume: str, path: str, read_only: bool = False) -> Json:
    """A volume in a container."""
    return {"name": volume, "mountPath": path, **({"readOnly": True} if read_only else {})}


def resources(wish: Resources) -> Json:
    """Requests and limits; empty halves are left out."""
    halves = {"requests": dict(wish.requests), "limits": dict(wish.limits)}
    return {name: half for name, half in halves.items() if half}


def toleration(wish: Toleration) -> Json:
    """A toleration without the fields that nobody set."""
    fields = {
        "key": wish.key,
        "operator": wish.operator,
        "value": wish.value,
        "effect": wish.effect,
        "tolerationSeconds": wish.toleration_seconds,
    }
    return {name: value for name, value in fields.items() if value is not None}
