"""Which cluster this is: names an installation's folder where nobody named it, and marks whose folder one is.

Asked for where it is needed and not before: where all sources set `spec.installation`, no right is needed outside
our namespaces. What could not be read is asked for again, since a Role can be granted at any time.
"""

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import NAMESPACES
from engine_operator.errors import ClusterUnnamed, Forbidden

_KUBE_SYSTEM = ObjectRef(NAMESPACES, None, "kube-system")


class ClusterIdentity:
    """Reads what names the cluster, and keeps it: a uid never changes."""

    def __init__(self, cluster: ClusterClient, lease: ObjectRef | None = None) -> None:
        """`lease` is our own; without one, as for those who only look, `mark` may be empty."""
        self._cluster = cluster
        self._lease = lease
        self._known: dict[ObjectRef, str] = {}

    async def uid(self) -> str:
        """Uid of the namespace kube-system. Raises ClusterUnnamed if it may not be read, ClusterError."""
        try:
            return await self._uid(_KUBE_SYSTEM)
        except Forbidden as error:
            raise ClusterUnnamed(
                "the uid of the namespace kube-system, which names this cluster in the artifact store, can't be read: "
                "set spec.installation, or allow reading (the chart's rbac.readClusterId)"
            ) from error

    async def mark(self) -> str:
        """What an owner's mark names: the same uid, else that of our Lease, which no other cluster has either."""
        try:
            return await self.uid()
        except ClusterUnnamed:
            return await self._uid(self._lease) if self._lease is not None else ""

    async def _uid(self, ref: ObjectRef) -> str:
        if ref not in self._known:
            self._known[ref] = str((await self._cluster.get(ref))["metadata"]["uid"])
        return self._known[ref]
