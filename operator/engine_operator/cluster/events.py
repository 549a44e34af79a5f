"""Events on our custom resources: one per transition, a series for what repeats.

The Event's name is a hash of what it says, so a repetition, also after a restart, finds the earlier one and counts it
up instead of adding another.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import EVENTS, FIELD_MANAGER, Json, Resource
from engine_operator.domain.keys import digest
from engine_operator.errors import AlreadyExists, NotFound

_LONGEST_NOTE = 1000
"""Characters; the API takes 1,024."""


@dataclass(frozen=True)
class Note:
    """One thing to tell about one object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    type: str
    """Normal or Warning."""
    reason: str
    message: str


class EventRecorder:
    """Writes Events. `instance` names this process."""

    def __init__(self, client: ClusterClient, instance: str) -> None:
        self._client = client
        self._instance = instance

    async def tell(self, note: Note) -> None:
        """Create the Event, or count it up."""
        name = f"{note.name}.{digest(note.uid, note.type, note.reason, note.message, length=16)}"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        try:
            await self._client.create(EVENTS, self._body(note, name, now))
        except AlreadyExists:
            await self._count(ObjectRef(EVENTS, note.namespace, name), now)

    async def _count(self, ref: ObjectRef, now: str) -> None:
        found = await self._client.find(ref)
        seen = int(((found or {}).get("series") or {}).get("count") or 1)
        try:
            await self._client.merge(ref, {"series": {"count": max(2, seen + 1), "lastObservedTime": now}})
        except NotFound:
            return  # Events expire; the next repetition makes a new one.

    def _body(self, note: Note, name: str, now: str) -> Json:
        return {
            "metadata": {"name": name, "namespace": note.namespace},
            "eventTime": now,
            "type": note.type,
            "reason": note.reason,
            "action": note.reason,
            "note": note.message[:_LONGEST_NOTE],
            "reportingController": f"{FIELD_MANAGER}.dev/operator",
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": note.resource.api_version,
                "kind": note.resource.kind,
                "namespace": note.namespace,
                "name": note.name,
                "uid": note.uid,
            },
        }
