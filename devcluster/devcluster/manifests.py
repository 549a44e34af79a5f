"""Turns the install manifests of CoreDNS, Knative, Kourier, KServe and versitygw into what fits this cluster. Pure.

What is changed, and why:
    images        nothing can be pulled, so each is replaced by one that was built here
    resources     requests shrink and limits go, since all of it shares two cores with the models
    HPAs, PDBs    dropped: there is one node and no metrics server
    settings      those that serval-live's services rely on (docs/devcluster.md lists them)
"""

import base64
import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from devcluster.certificates import Authority, Pair

Manifest = dict[str, Any]

_DROPPED_KINDS = frozenset({"HorizontalPodAutoscaler", "PodDisruptionBudget"})
_WORKLOADS = frozenset({"Deployment", "DaemonSet", "StatefulSet"})
_REQUESTS = {"cpu": "10m", "memory": "32Mi"}

KNATIVE_SETTINGS: dict[str, dict[str, str]] = {
    "config-network": {"ingress-class": "kourier.ingress.networking.knative.dev"},
    "config-domain": {"example.com": ""},
    "config-autoscaler": {
        # A rollout that must not need a second GPU starts its revision with no pod.
        "allow-zero-initial-scale": "true",
        # The time between "no traffic for a window" and the last pod's end; the activator is in the path well within.
        "scale-to-zero-grace-period": "10s",
    },
    # A pod that waits for a node of an autoscaled pool is not a failure of its revision.
    "config-deployment": {
        "pod-is-always-schedulable": "true",
        "registries-skipping-tag-resolving": "dev.local,kind.local,ko.local",
    },
}
"""ConfigMap in knative-serving -> entries. Everything else stays at Knative's default."""

KSERVE_NAMESPACE = "kserve"
_KSERVE_WEBHOOK = f"kserve-webhook-server-service.{KSERVE_NAMESPACE}.svc"
_KSERVE_SECRET = "kserve-webhook-server-cert"


@dataclass(frozen=True)
class Images:
    """Names of the images that were built here, by program."""

    by_program: dict[str, str]

    def __getitem__(self, program: str) -> str:
        return self.by_program[program]

    def for_reference(self, reference: str) -> str:
        """The local image for an image reference of an upstream manifest; others are returned as they are."""
        if reference.startswith("ko://"):
            root, _, command = reference.removeprefix("ko://").partition("/cmd/")
            return self["kourier" if root.endswith("net-kourier") else f"knative-{command}"]
        if "/envoy:" in reference:
            return self["envoy"]
        if "kserve-controller" in reference:
            return self["kserve-manager"]
        return reference


def fit(objects: Iterable[Manifest], images: Images) -> list[Manifest]:
    """What holds for every object: local images, small requests, nothing that needs metrics."""
    kept = [copy.deepcopy(each) for each in objects if each["kind"] not in _DROPPED_KINDS]
    for each in kept:
        _replace_images(each, images)
        if each["kind"] in _WORKLOADS:
            for container in each["spec"]["template"]["spec"]["containers"]:
                container["resources"] = {"requests": dict(_REQUESTS)}
                container["imagePullPolicy"] = "IfNotPresent"
    return kept


def _replace_images(node: Any, images: Images) -> None:
    """Everywhere, since the queue image stands in a ConfigMap and in a cache object."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node))
    for key, value in items:
        if not isinstance(value, str):
            _replace_images(value, images)
        elif value.startswith("ko://") or key == "image":
            node[key] = images.for_reference(value)


def knative(objects: Iterable[Manifest], images: Images) -> list[Manifest]:
    """Knative Serving with our settings, short grace periods, and frequent looks at readiness."""
    fitted = [each for each in fit(objects, images) if each["kind"] != "Certificate"]
    for each in fitted:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] in KNATIVE_SETTINGS:
            data = each.setdefault("data", {})
            data.update(KNATIVE_SETTINGS[each["metadata"]["name"]])
    return fitted


def kourier(objects: Iterable[Manifest], images: Images) -> list[Manifest]:
    """Kourier and its Envoy, which has another path here and whose Service needs no load balancer."""
    fitted = fit(objects, images)
    for each in fitted:
        if each["kind"] == "Service" and each["spec"].get("type") == "LoadBalancer":
            each["spec"]["type"] = "ClusterIP"
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "3scale-kourier-gateway":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            # Upstream's image splits arguments in a shell; ours starts the program itself.
            container["args"] = [word for argument in container["args"] for word in argument.split(" ", 1)]
            container["command"] = ["/usr/local/bin/envoy"]
            # No curl in our image, and nothing to drain for on a node that goes away as a whole.
            container.pop("lifecycle", None)
            container["readinessProbe"]["initialDelaySeconds"] = 1
            container["readinessProbe"]["periodSeconds"] = 1
    return fitted


def kserve(objects: Iterable[Manifest], images: Images, authority: Authority) -> list[Manifest]:
    """KServe's controller without cert-manager and without the side container that guards its metrics."""
    serving = authority.server(_KSERVE_WEBHOOK, [_KSERVE_WEBHOOK, f"{_KSERVE_WEBHOOK}.cluster.local"])
    fitted = [each for each in fit(objects, images) if not each["apiVersion"].startswith("cert-manager.io/")]
    by_kind: dict[str, Callable[[Manifest], None]] = {
        "Deployment": _kserve_deployment,
        "ConfigMap": _kserve_settings,
        "MutatingWebhookConfiguration": lambda each: _trust(each, authority.pair),
        "ValidatingWebhookConfiguration": lambda each: _trust(each, authority.pair),
    }
    for each in fitted:
        if each["kind"] in by_kind:
            by_kind[each["kind"]](each)
    kept = [each for each in fitted if (each["kind"], each["metadata"]["name"]) != ("Secret", _KSERVE_SECRET)]
    return [namespace(KSERVE_NAMESPACE), _tls_secret(serving), *kept]


def _kserve_deployment(deployment: Manifest) -> None:
    pod = deployment["spec"]["template"]["spec"]
    pod["containers"] = [each for each in pod["containers"] if each["name"] == "manager"]
    (manager,) = pod["containers"]
    manager["command"] = ["/kserve-manager"]
    # Alone on its node; an election only delays its start.
    manager["args"] = [each for each in manager["args"] if each != "--leader-elect"]
    manager["readinessProbe"].update(initialDelaySeconds=1, periodSeconds=1)


def _kserve_settings(settings: Manifest) -> None:
    data = settings["data"]
    ingress = json.loads(data["ingress"])
    ingress["disableIstioVirtualHost"] = True
    data["ingress"] = json.dumps(ingress, indent=2)
    data["deploy"] = json.dumps({"defaultDeploymentMode": "Knative"})


def _trust(configuration: Manifest, authority: Pair) -> None:
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = _encoded(authority.certificate)


def _tls_secret(pair: Pair) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": _KSERVE_SECRET, "namespace": KSERVE_NAMESPACE},
        "data": {"tls.crt": _encoded(pair.certificate), "tls.key": _encoded(pair.key)},
    }


def namespace(name: str) -> Manifest:
    """A namespace without any settings."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
