"""Taking back, once, fields of ours that somebody overwrote, without a forced apply.

The whole object is read, our fields are laid over it, and it is replaced at the version that was read. Fields of others
stay as they are, and somebody who writes in between wins.
"""

from typing import Any

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import Json, JsonView, Resource


async def reclaim(client: ClusterClient, resource: Resource, wanted: JsonView) -> Json:
    """Write our fields over the live object, then apply, so that we own them again. Raises Outdated."""
    metadata = wanted["metadata"]
    live = await client.get(ObjectRef(resource, metadata["namespace"], metadata["name"]))
    await client.replace(resource, laid_over(live, wanted))
    return await client.apply(resource, wanted)


def laid_over(live: Any, wanted: Any) -> Any:
    """`wanted` over `live`: maps by key, lists of named entries by name, everything else as wanted."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        merged = {key: laid_over(live[key], value) if key in live else value for key, value in wanted.items()}
        return {**live, **merged}
    if _named(live) and _named(wanted):
        ours = {entry["name"]: entry for entry in wanted}
        kept = [laid_over(entry, ours.pop(entry["name"], entry)) for entry in live]
        return kept + list(ours.values())
    return wanted


def _named(entries: Any) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, dict) and "name" in entry for entry in entries)
