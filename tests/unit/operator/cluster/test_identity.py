"""What names the cluster is read only where it is needed, and may be forbidden."""

import httpx
import pytest

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.identity import ClusterIdentity
from engine_operator.cluster.resources import LEASES
from engine_operator.errors import ClusterUnnamed
from tests.support.fake_cluster import FakeCluster, status_answer

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
LEASE = ObjectRef(LEASES, "ns", "serval-live-operator")


def cluster() -> FakeCluster:
    """One with the namespace and our Lease."""
    found = FakeCluster()
    found.put(KUBE_SYSTEM, {"metadata": {"name": "kube-system", "uid": "uid-of-kube-system"}})
    lease = {"metadata": {"name": "serval-live-operator", "namespace": "ns", "uid": "uid-of-the-lease"}}
    found.put(LEASES.path("ns", "serval-live-operator"), lease)
    return found


def forbid(found: FakeCluster) -> None:
    """As with `rbac.readClusterId: false`."""

    def refuse(request: httpx.Request) -> httpx.Response | None:
        return status_answer(403, "Forbidden", "no") if request.url.path == KUBE_SYSTEM else None

    found.interfere = refuse


async def test_the_cluster_is_named_by_kube_system_and_asked_once() -> None:
    fake = cluster()
    async with fake.client() as client:
        identity = ClusterIdentity(client, LEASE)
        assert [await identity.uid(), await identity.mark(), await identity.uid()] == [
            "uid-of-kube-system"
        ] * 3
    assert [one.url.path for one in fake.requests] == [KUBE_SYSTEM]


async def test_without_the_right_the_mark_is_the_leases_and_a_name_is_refused_with_what_helps() -> None:
    fake = cluster()
    forbid(fake)
    async with fake.client() as client:
        identity = ClusterIdentity(client, LEASE)
        assert await identity.mark() == "uid-of-the-lease"
        with pytest.raises(ClusterUnnamed, match=r"set spec\.installation, or allow reading"):
            await identity.uid()


async def test_a_right_that_is_granted_later_is_noticed() -> None:
    fake = cluster()
    forbid(fake)
    async with fake.client() as client:
        identity = ClusterIdentity(client)
        assert await identity.mark() == ""
        fake.interfere = lambda _: None
        assert await identity.uid() == "uid-of-kube-system"
