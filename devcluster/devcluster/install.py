"""Installs everything above a bare node: DNS, Knative, Kourier, S3, KServe. The order matters and is explained.

Applying is server-side with one field manager, so a second installation over the first changes only what differs.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from devcluster import crds, manifests, own_manifests
from devcluster.certificates import Authority
from devcluster.crds import Manifest, documents, dump
from devcluster.errors import CommandFailed, NotReady
from devcluster.manifests import Images
from devcluster.program_images import image_names
from devcluster.programs import Programs
from devcluster.progress import step
from devcluster.waiting import until

_READY_S = 240.0


@dataclass(frozen=True)
class Target:
    """A cluster to install into."""

    kubectl: Callable[..., str]
    """Takes kubectl's arguments and, by keyword, `stdin`; returns its output."""
    programs: Programs
    authority: Authority
    """Issues the certificate of KServe's webhooks."""
    dns_address: str | None
    """Service address of CoreDNS; None where the cluster has a DNS already."""


def everything(target: Target) -> None:
    """The whole installation; returns when every pod is ready and every webhook answers."""
    images = image_names(target.programs)
    if target.dns_address is not None:
        with step("node ready, CoreDNS"):
            apply(target, own_manifests.core_dns(images, target.dns_address))
            # Before Knative: the activator and Envoy crash-loop without DNS.
            wait_for_deployments(target, "kube-system")
    with step("resource types of Knative and KServe"):
        crds.install_with(lambda arguments, stdin: target.kubectl(*arguments, stdin=stdin), target.programs)
    with step("Knative Serving, Kourier, S3 and KServe: applying"):
        parts = [
            *knative(target.programs, images),
            *kourier(target.programs, images),
            *own_manifests.s3(images, secrets.token_hex(10), secrets.token_urlsafe(30)),
            *kserve(target.programs, images, target.authority),
        ]
        _apply_in_order(target, parts)
    for namespace in (
        "knative-serving",
        "kourier-system",
        own_manifests.S3_NAMESPACE,
        manifests.KSERVE_NAMESPACE,
    ):
        with step(f"{namespace} ready"):
            wait_for_deployments(target, namespace)


def knative(programs: Programs, images: Images) -> list[Manifest]:
    """Knative Serving without its resource types."""
    core = programs.source("knative", "knative.dev/serving") / "config/core"
    places = [core, core / "200-roles", core / "configmaps", core / "deployments", core / "webhooks"]
    objects = [each for place in places for each in documents(place)]
    objects += documents(programs.source("knative", "knative.dev/networking") / "config/config-network.yaml")
    return manifests.knative(objects, images)


def kourier(programs: Programs, images: Images) -> list[Manifest]:
    """Kourier's controller and gateway."""
    return manifests.kourier(
        documents(programs.source("knative", "knative.dev/net-kourier") / "config"), images
    )


def kserve(programs: Programs, images: Images, authority: Authority) -> list[Manifest]:
    """KServe's controller. Its chart keeps plain manifests beside the templates, and those are complete."""
    files = programs.source("kserve", "github.com/kserve/kserve") / "charts/kserve-resources/files"
    objects = [*documents(files / "kserve/resources.yaml"), *documents(files / "common/configmap.yaml")]
    return manifests.kserve(objects, images, authority)


def apply(target: Target, objects: Sequence[Manifest]) -> None:
    """Server-side apply, forced: the cluster is ours."""
    target.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=devcluster",
        "-f",
        "-",
        stdin=dump(list(objects)),
    )


def wait_for_deployments(target: Target, namespace: str) -> None:
    """Until all Deployments of a namespace are available; the error tells which pods are not and why."""
    try:
        target.kubectl(
            "wait",
            "deployment",
            "--all",
            f"--namespace={namespace}",
            "--for=condition=Available",
            f"--timeout={_READY_S:.0f}s",
        )
    except CommandFailed as failed:
        pods = target.kubectl("get", "pods", f"--namespace={namespace}", "--output=wide")
        events = target.kubectl("get", "events", f"--namespace={namespace}", "--sort-by=.lastTimestamp")
        last = "\n".join(events.splitlines()[-15:])
        raise NotReady(f"{namespace} is not available:\n{pods}\n{last}") from failed


def _apply_in_order(target: Target, objects: Sequence[Manifest]) -> None:
    """Namespaces first; webhook configurations last, or they would refuse the ConfigMaps before they can answer."""

    def rank(each: Manifest) -> int:
        kind = each["kind"]
        return 0 if kind == "Namespace" else 2 if kind.endswith("WebhookConfiguration") else 1

    for wanted in (0, 1):
        apply(target, [each for each in objects if rank(each) == wanted])
    wait_for_deployments(target, "knative-serving")
    apply(target, [each for each in objects if rank(each) == 2])


def wait_webhooks(target: Target) -> None:
    """Until the admission webhooks of Knative and KServe let an object pass (nothing is stored)."""
    service = {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [{"image": "dev.local/probe:1"}]}}},
    }
    inference = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"predictor": {"containers": [{"name": "kserve-container", "image": "dev.local/probe:1"}]}},
    }

    def look() -> bool:
        try:
            target.kubectl("create", "--dry-run=server", "-f", "-", stdin=dump([service, inference]))
        except CommandFailed:
            return False
        return True

    until("the webhooks of Knative and KServe", look, timeout_s=_READY_S, pause_s=0.5)
