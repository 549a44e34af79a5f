"""Secrets and ConfigMaps, read when they are needed and never kept longer than a client lives.

Three credentials that are never mixed: Serval's key stays in this process; the store's keys here are those of
`artifactStore.secretRef`; predictors get another Secret by reference, which is only checked.
"""

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import CONFIG_MAPS, SECRETS
from engine_operator.domain.engine import ObjectStore, SourceSpec
from engine_operator.errors import ServalRefusedCredentials, StoreMisconfigured
from engine_operator.serval.auth import ApiKeyAuth, ClientCredentials, ClientCredentialsAuth
from engine_operator.store.address import StoreAddress, StoreKeys
from engine_operator.store.preflight import (
    CA_KEY,
    refuse_misplaced_endpoint,
    required,
    secret_values,
    store_keys,
)

API_KEY = "api-key"
CLIENT_ID = "client-id"
CLIENT_SECRET = "client-secret"


async def serval_values(cluster: ClusterClient, source: SourceSpec) -> dict[str, str]:
    """The values of the source's Secret. Raises ServalRefusedCredentials that names it if it does not exist."""
    found = await cluster.find(ObjectRef(SECRETS, source.namespace, source.credentials_secret))
    if found is None:
        raise ServalRefusedCredentials(
            f"Secret {source.credentials_secret!r} does not exist; "
            f"it needs {API_KEY}, or {CLIENT_ID} and {CLIENT_SECRET}"
        )
    return {key: value.strip() for key, value in secret_values(found).items()}


def serval_auth(source: SourceSpec, values: dict[str, str]) -> ApiKeyAuth | ClientCredentialsAuth:
    """How to prove to Serval who we are. Raises ServalRefusedCredentials that names what is missing."""
    if values.get(API_KEY):
        return ApiKeyAuth(values[API_KEY])
    if values.get(CLIENT_ID) and values.get(CLIENT_SECRET):
        if not source.token_url:
            raise ServalRefusedCredentials(
                f"{CLIENT_ID} needs spec.tokenUrl, the identity provider's token address"
            )
        given = ClientCredentials(source.token_url, values[CLIENT_ID], values[CLIENT_SECRET])
        if source.audience:
            given = ClientCredentials(given.token_url, given.client_id, given.client_secret, source.audience)
        return ClientCredentialsAuth(given)
    raise ServalRefusedCredentials(
        f"Secret {source.credentials_secret!r} has {sorted(values)}; "
        f"it needs {API_KEY}, or {CLIENT_ID} and {CLIENT_SECRET}"
    )


async def store_access(
    cluster: ClusterClient, namespace: str, place: ObjectStore, secret: str | None
) -> tuple[StoreAddress, StoreKeys | None]:
    """Address and keys of a store; `secret` None means no keys. Raises StoreMisconfigured: the exact missing thing."""
    keys = None
    if secret is not None:
        found = await cluster.find(ObjectRef(SECRETS, namespace, secret))
        keys = store_keys(secret, found)
        if place.endpoint is None:
            refuse_misplaced_endpoint(secret, found or {})
    return StoreAddress(
        place.uri, place.endpoint, place.region, await _authority(cluster, namespace, place)
    ), keys


async def _authority(cluster: ClusterClient, namespace: str, place: ObjectStore) -> str | None:
    if place.ca_config_map is None:
        return None
    found = await cluster.find(ObjectRef(CONFIG_MAPS, namespace, place.ca_config_map))
    if found is None:
        raise StoreMisconfigured(
            f"ConfigMap {place.ca_config_map!r} does not exist; it needs the key {CA_KEY}"
        )
    data = {str(key): str(value) for key, value in (found.get("data") or {}).items()}
    return required(place.ca_config_map, data, CA_KEY)
