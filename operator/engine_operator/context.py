"""What all engines of one source, or one person's model, share in a round: the store, and what Serval said.

Built anew by each sweep from Secrets, the store and Serval; the process may be lost at any time without loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.credentials import store_access
from engine_operator.domain.engine import ObjectStore, SourceSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.observed import KnativeSettings
from engine_operator.domain.own_identity import IdentityGrant, may_use_own_identity
from engine_operator.domain.serval_facts import Existence, ServalEngine, Verdict
from engine_operator.errors import ClusterError, OwnIdentityRefused, StoreError
from engine_operator.store.address import S3, Patience, StoreAddress, StoreKeys
from engine_operator.store.artifacts import ArtifactStore
from engine_operator.store.owner import OWNER, Owner
from engine_operator.store.preflight import preflight

NO_ENDPOINT = (
    "; artifactStore.endpoint is not set, so AWS itself is asked (an address is read from nowhere else, "
    "neither from a Secret's nor from a ServiceAccount's annotations)"
)
"""Told of a store that can't be used and has no address of its own."""


@dataclass(frozen=True)
class StoreState:
    """One installation in one store, and why it can't be used (None if it can)."""

    place: ObjectStore
    installation: str
    store: ArtifactStore | None
    problem: Verdict | None
    alone: bool = False
    """The folder is this owner's alone: what belongs to none of its engines is garbage."""


@dataclass(frozen=True)
class SourceContext:
    """What the last sweep of a source learned."""

    source: SourceSpec
    storage: StoreState
    engines: Mapping[EngineId, ServalEngine] = field(default_factory=dict)
    """Of the last list, if this sweep got one; else empty."""
    existence: Mapping[EngineId, Existence] = field(default_factory=dict)
    problem: Verdict | None = None
    """Why Serval could not be asked."""
    knative: KnativeSettings = field(default_factory=KnativeSettings)
    kept: frozenset[str] = frozenset()
    """Names of the engines that its warm budget keeps awake."""


class StoreBook:
    """Opens stores, and keeps one S3 client for each distinct address and keys."""

    MOST = 64
    """Clients kept; more means that keys rotate, and old ones are of no use."""

    def __init__(
        self,
        cluster: ClusterClient,
        patience: Patience,
        touch: bool = True,
        grants: tuple[IdentityGrant, ...] = (),
    ) -> None:
        """`touch` False only looks: the owner's mark is neither written nor renewed. `grants`: what needs no keys."""
        self._cluster = cluster
        self._patience = patience
        self._touch = touch
        self._grants = grants
        self._clients: dict[tuple[StoreAddress, StoreKeys | None], S3] = {}

    async def open(self, namespace: str, place: ObjectStore, installation: str) -> ArtifactStore:
        """The installation with the credentials as they are now. Raises StoreError, ClusterError."""
        return ArtifactStore(await self._s3(namespace, place, place.secret), installation)

    async def state(self, place: ObjectStore, installation: str, owner: Owner) -> StoreState:
        """Open and check: the exact thing that is missing becomes the problem."""
        try:
            store = await self.open(owner.namespace, place, installation)
            readers = None
            if place.for_readers != place.secret:
                readers = await self._s3(owner.namespace, place, place.for_readers)
            alone = await preflight(store, owner, readers, datetime.now(UTC)) if self._touch else False
            if not self._touch:
                await store.read(OWNER)
        except (StoreError, ClusterError) as error:
            asked_aws = place.endpoint is None and not isinstance(error, OwnIdentityRefused)
            told = f"{error}{NO_ENDPOINT if asked_aws else ''}"
            return StoreState(place, installation, None, Verdict(error.reason, told))
        return StoreState(place, installation, store, None, alone)

    async def _s3(self, namespace: str, place: ObjectStore, secret: str | None) -> S3:
        if secret is None and not may_use_own_identity(self._grants, namespace, place.uri):
            raise OwnIdentityRefused(
                "artifactStore.secretRef is not set, and the operator's setting OWN_IDENTITY_STORES does not let "
                f"namespace {namespace!r} use the operator's own identity for {place.uri!r}"
            )
        wanted = await store_access(self._cluster, namespace, place, secret)
        if wanted not in self._clients:
            while len(self._clients) >= self.MOST:
                del self._clients[next(iter(self._clients))]
            self._clients[wanted] = S3(*wanted, self._patience)
        return self._clients[wanted]
