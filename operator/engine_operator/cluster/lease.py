"""One writer: a coordination Lease, since two operators would convert twice and undo each other.

The holder renews; a candidate takes over when it has seen the same record for longer than the record's own duration, by
the candidate's own monotonic clock. Clocks of two machines are never compared. `check` is the guard of every other
write: it refuses from the renewal deadline on, which lies before the moment at which somebody else may take over.

Refuses kopf's peering: two equal peers freeze each other.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import LEASES, Json
from engine_operator.errors import AlreadyExists, LeaseLost, Outdated


@dataclass(frozen=True)
class LeaseTiming:
    """Seconds. `renew_deadline` plus a write's own timeout must stay within `duration`."""

    duration: float = 15.0
    """How long others wait after our last renewal."""

    renew_every: float = 2.0
    """Between two renewals. One that hangs for a write's whole time limit leaves room for another."""

    renew_deadline: float = 10.0
    """From the start of the last good renewal; after that we no longer write."""

    look_every: float = 2.0
    """Between two looks of a candidate, and between tries after a failed renewal."""


@dataclass(frozen=True)
class LeaseName:
    """Which Lease, and who we are. `identity` must differ between processes, also between restarts of one pod."""

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True)
class _Seen:
    """A foreign record, and since when we have seen it unchanged."""

    holder: str
    version: str
    since: float


class Lease:
    """Our view of the Lease. Not safe for several tasks: one loop owns `attempt`; `check` may be called anywhere."""

    def __init__(
        self,
        client: ClusterClient,
        name: LeaseName,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._name = name
        self.timing = timing or LeaseTiming()
        self._clock = clock
        self._renewed_at: float | None = None
        self._seen: _Seen | None = None

    @property
    def held(self) -> bool:
        """We lead, and nobody else can before `renew_deadline` has passed."""
        return self._renewed_at is not None and self._clock() - self._renewed_at < self.timing.renew_deadline

    def check(self) -> None:
        """Raises LeaseLost unless `held`."""
        if not self.held:
            raise LeaseLost(
                f"Lease {self._name.namespace}/{self._name.name} is not held by {self._name.identity}"
            )

    async def attempt(self) -> bool:
        """Take or renew the Lease; True if we lead now. A lost race is False, an unreachable API raises."""
        started = self._clock()
        ref = ObjectRef(LEASES, self._name.namespace, self._name.name)
        found = await self._client.find(ref)
        try:
            if found is None:
                await self._client.create(LEASES, self._record({}, transitions=0))
            elif self._may_take(found, started):
                await self._client.replace(
                    LEASES, self._record(found, _transitions(found) + self._changes(found))
                )
            else:
                self._renewed_at = None
                return False
        except (AlreadyExists, Outdated):
            self._renewed_at = None
            return False
        self._renewed_at = started
        self._seen = None
        return True

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait. Harmless if it is not ours any more."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        found = await self._client.find(ObjectRef(LEASES, self._name.namespace, self._name.name))
        if found is None or _holder(found) != self._name.identity:
            return
        body = self._record(found, _transitions(found))
        body["spec"]["holderIdentity"] = ""
        try:
            await self._client.replace(LEASES, body)
        except Outdated:
            return  # A successor was quicker, which is what we wanted.

    def _may_take(self, found: Json, now: float) -> bool:
        holder = _holder(found)
        if holder in ("", self._name.identity):
            return True
        version = str(found["metadata"]["resourceVersion"])
        if self._seen is None or self._seen.version != version:
            self._seen = _Seen(holder, version, now)
            return False
        promised = float(found["spec"].get("leaseDurationSeconds") or self.timing.duration)
        return now - self._seen.since > promised

    def _changes(self, found: Json) -> int:
        return int(_holder(found) != self._name.identity)

    def _record(self, found: Json, transitions: int) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = dict(found.get("spec") or {})
        if spec.get("holderIdentity") != self._name.identity:
            spec["acquireTime"] = now
        spec |= {
            "holderIdentity": self._name.identity,
            "leaseDurationSeconds": max(1, round(self.timing.duration)),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        metadata = found.get("metadata") or {"namespace": self._name.namespace, "name": self._name.name}
        return {**found, "metadata": metadata, "spec": spec}


def _holder(found: Json) -> str:
    return str((found.get("spec") or {}).get("holderIdentity") or "")


def _transitions(found: Json) -> int:
    return int((found.get("spec") or {}).get("leaseTransitions") or 0)
