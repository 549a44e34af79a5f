"""Whose folder an installation is: a mark that keeps two clusters from collecting each other's models.

Two clusters that share a store and, by a restored backup or a copied setting, also an installation's name would each
see the other's artifacts as garbage. The mark is renewed while its cluster lives; a mark of another cluster that is
younger than a day stops us.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine_operator.errors import StoreInUse
from engine_operator.store.artifacts import ArtifactStore

OWNER = "owner.json"
SCHEMA = "serval-live/owner/v1"


@dataclass(frozen=True)
class Owner:
    """Who works in an installation. `cluster` is the uid of the namespace kube-system."""

    cluster: str
    namespace: str
    source: str


@dataclass(frozen=True)
class OwnerRule:
    """When a mark counts."""

    fresh: timedelta = timedelta(days=1)
    """A foreign mark of this age or less stops us."""

    renew: timedelta = timedelta(hours=6)
    """Our own mark is written again at this age: four times before it could be taken for dead."""


async def claim(store: ArtifactStore, owner: Owner, now: datetime, rule: OwnerRule | None = None) -> bool:
    """Mark the folder as ours where it is free, ours, or abandoned. Raises StoreInUse, StoreError.

    False: another source of this very cluster marked it. Both may work there, but neither knows what is garbage.
    """
    rule = rule or OwnerRule()
    found = _read(await store.read(OWNER))
    if found is not None:
        holder, renewed = found
        age = now - renewed
        if holder == owner and age < rule.renew:
            return True
        if holder.cluster == owner.cluster and holder != owner and age <= rule.fresh:
            return False
        if holder.cluster != owner.cluster and age <= rule.fresh:
            raise StoreInUse(
                f"installation {store.installation!r} belongs to namespace {holder.namespace} of cluster "
                f"{holder.cluster}, last seen {renewed:%Y-%m-%dT%H:%M:%SZ}; choose another spec.installation"
            )
    body = {
        "schema": SCHEMA,
        "cluster": owner.cluster,
        "namespace": owner.namespace,
        "source": owner.source,
        "renewed": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    await store.write(OWNER, json.dumps(body, indent=1).encode())
    return True


def _read(content: bytes | None) -> tuple[Owner, datetime] | None:
    if content is None:
        return None
    try:
        body = json.loads(content)
        renewed = datetime.fromisoformat(body["renewed"]).astimezone(UTC)
        return Owner(str(body["cluster"]), str(body["namespace"]), str(body["source"])), renewed
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None  # Unreadable marks are written anew; nobody keeps a lease by writing garbage.
