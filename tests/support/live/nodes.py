"""A node pool that comes and goes: extended resources of the cluster's nodes, written into their status.

Scheduler and kubelet treat `nvidia.com/gpu` there as they do one that a device plugin reports.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.live.kubectl import Kubectl

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
