"""What `devcluster status` tells."""

import json
from dataclasses import dataclass
from typing import Any

from devcluster.backends import Backend


@dataclass(frozen=True)
class PodLine:
    """One pod as it is shown."""

    namespace: str
    name: str
    ready: str
    phase: str
    restarts: int


def report(backend: Backend) -> str:
    """A few lines: which cluster, whether it runs, and its pods."""
    if not backend.is_up():
        return f"backend   {backend.name}\nrunning   no (start it with: devcluster up)"
    pods = json.loads(backend.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    lines = [pod_line(each) for each in pods]
    head = [f"backend   {backend.name}", "running   yes", f"config    {backend.kubeconfig()}", ""]
    width = max((len(f"{line.namespace}/{line.name}") for line in lines), default=0)
    rows = [
        f"{line.namespace + '/' + line.name:<{width}}  {line.ready:<5}  {line.phase:<11}  {line.restarts}"
        for line in lines
    ]
    return "\n".join([*head, f"{'POD':<{width}}  READY  PHASE        RESTARTS", *rows])


def pod_line(pod: dict[str, Any]) -> PodLine:
    """The facts of a pod that matter at a glance."""
    containers = pod["status"].get("containerStatuses", [])
    ready = sum(1 for each in containers if each["ready"])
    return PodLine(
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        ready=f"{ready}/{len(pod['spec']['containers'])}",
        phase="Terminating" if "deletionTimestamp" in pod["metadata"] else pod["status"]["phase"],
        restarts=sum(each["restartCount"] for each in containers),
    )
