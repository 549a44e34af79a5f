"""Knative's cluster-wide settings, as far as they decide what is possible here.

Read where a Role allows it; what can't be read is None, and Knative's defaults are then assumed and said so.
"""

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import CONFIG_MAPS
from engine_operator.domain.mode import ServingMode
from engine_operator.domain.observed import KnativeSettings
from engine_operator.errors import ClusterError

DEFAULT_DOMAIN_TEMPLATE = "{{.Name}}.{{.Namespace}}.{{.Domain}}"


async def knative_settings(
    client: ClusterClient, namespace: str, mode: ServingMode | None = None
) -> KnativeSettings:
    """The settings, each None where its ConfigMap can't be read, and all None where no engine runs on Knative."""
    if mode is not None and mode.standard:
        return KnativeSettings()
    autoscaler = await _data(client, namespace, "config-autoscaler")
    deployment = await _data(client, namespace, "config-deployment")
    defaults = await _data(client, namespace, "config-defaults")
    network = await _data(client, namespace, "config-network")
    return KnativeSettings(
        allow_zero_initial_scale=_flag(autoscaler, "allow-zero-initial-scale"),
        pod_is_always_schedulable=_flag(deployment, "pod-is-always-schedulable"),
        max_revision_timeout_seconds=_seconds(defaults, "max-revision-timeout-seconds", 600),
        domain_template=None
        if network is None
        else network.get("domain-template") or network.get("domainTemplate") or DEFAULT_DOMAIN_TEMPLATE,
        response_start_seconds=_response_start(defaults),
    )


async def _data(client: ClusterClient, namespace: str, name: str) -> dict[str, str] | None:
    try:
        found = await client.find(ObjectRef(CONFIG_MAPS, namespace, name))
    except ClusterError:
        return (
            None  # Forbidden, or asked again within the hour; a guess made now would be worse than "unknown".
        )
    return None if found is None else dict(found.get("data") or {})


def _flag(data: dict[str, str] | None, key: str) -> bool | None:
    """Both settings are false where nobody set them."""
    return None if data is None else data.get(key, "false").strip().lower() == "true"


def _response_start(data: dict[str, str] | None) -> int | None:
    """Where nobody set it, it follows the time-out that revisions get by default."""
    plain = _seconds(data, "revision-timeout-seconds", 300)
    return _seconds(data, "revision-response-start-timeout-seconds", 300 if plain is None else plain)


def _seconds(data: dict[str, str] | None, key: str, default: int) -> int | None:
    if data is None:
        return None
    text = data.get(key, str(default)).strip()
    return int(text) if text.isdecimal() else None
