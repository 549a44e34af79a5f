"""A node pool that comes and goes: extended resources of the cluster's nodes, written into their status.

Scheduler and kubelet treat `nvidia.com/gpu` there as they do one that a device plugin reports. The kubelet takes what
is written into account within some seconds: until then it hands out what the node had before.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.support.live.kubectl import Kubectl, Object
from tests.support.waiting import eventually_sync

GPU = "nvidia.com/gpu"
_PATH = "/status/capacity/nvidia.com~1gpu"


def give_gpus(kubectl: Kubectl, count: int) -> None:
    """Every node has so many GPUs from now on."""
    _patch(kubectl, {"op": "add", "path": _PATH, "value": str(count)})


def take_gpus(kubectl: Kubectl) -> None:
    """No node has a GPU any more; pods that were given one go on."""
    for node in kubectl.list("nodes"):
        if GPU in node["status"]["capacity"]:
            _patch(kubectl, {"op": "remove", "path": _PATH}, node["metadata"]["name"])


def wait_until_no_gpu_is_left(kubectl: Kubectl, timeout: float = 40.0) -> None:
    """Until no node hands out a GPU any more."""

    def left() -> list[str]:
        told = [node["status"].get("allocatable", {}) for node in kubectl.list("nodes")]
        return [one[GPU] for one in told if one.get(GPU, "0") != "0"]

    eventually_sync(lambda: not left(), timeout=timeout, interval=0.5)


def say_as_autoscaler(kubectl: Kubectl, pod: Object, reason: str, message: str) -> None:
    """An Event about a pod, as the Cluster Autoscaler writes them."""
    metadata = pod["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{reason.lower()}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                **{key: metadata[key] for key in ("name", "namespace", "uid")},
            },
            "reason": reason,
            "message": message,
            "source": {"component": "cluster-autoscaler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Normal",
        }
    )


@contextmanager
def lent_gpu(kubectl: Kubectl, count: int = 1) -> Iterator[None]:
    """GPUs for the time of a block."""
    give_gpus(kubectl, count)
    try:
        yield
    finally:
        take_gpus(kubectl)


def _patch(kubectl: Kubectl, change: dict[str, str], name: str = "") -> None:
    names = [name] if name else [node["metadata"]["name"] for node in kubectl.list("nodes")]
    for one in names:
        kubectl.run("patch", "node", one, "--subresource=status", "--type=json", "-p", json.dumps([change]))
