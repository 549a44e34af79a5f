"""Taking back, once, fields of ours that somebody overwrote, without a forced apply.

A plain write (`kubectl edit`, a patch) leaves a claim in `managedFields`, and that claim is all that our next apply
conflicts with. So such claims are dropped, at the version that was read, and our apply goes through as ever. Writing
the values ourselves instead would leave a claim of our own that conflicts with our own next apply.

Fields of others keep their values; writers of that kind need no claim. The claims of other appliers are left alone:
then the conflict stays, and a person has to decide who applies what.
"""

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import Json, JsonView, Resource


async def reclaim(client: ClusterClient, resource: Resource, wanted: JsonView) -> Json:
    """Drop the claims of plain writers, then apply. Raises Outdated if somebody writes in between, Conflict."""
    metadata = wanted["metadata"]
    live = await client.get(ObjectRef(resource, metadata["namespace"], metadata["name"]))
    await client.replace(resource, without_plain_claims(live))
    return await client.apply(resource, wanted)


def without_plain_claims(live: JsonView) -> Json:
    """The same object without the entries that writes other than applies left; those of its status stay."""
    entries = live["metadata"].get("managedFields") or []
    kept = [entry for entry in entries if entry.get("operation") == "Apply" or entry.get("subresource")]
    return {**live, "metadata": {**live["metadata"], "managedFields": kept}}
