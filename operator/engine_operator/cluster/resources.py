"""The kinds of Kubernetes object that the operator touches, and how their paths are written.

A JSON object of the API is a plain mapping at this edge; `crs` and `observe` turn it into domain records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
"""A JSON object as the API sends it."""

JsonView = Mapping[str, Any]
"""The same, only read."""

FIELD_MANAGER = "serval-live"


@dataclass(frozen=True)
class Resource:
    """One kind of the API. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What objects of this kind carry as `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Path below the server's address. `namespace` None means all namespaces, or a kind that has none."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)


def plural_of(path: str) -> str:
    """The kind that a path of `Resource.path` is about."""
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    return rest[2] if rest[0] == "namespaces" and len(rest) > 2 else rest[0]


SERVAL_SOURCES = Resource("serval-live.dev", "v1alpha1", "servalsources", "ServalSource")
ENGINES = Resource("serval-live.dev", "v1alpha1", "translationengines", "TranslationEngine")
INFERENCE_SERVICES = Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
KNATIVE_SERVICES = Resource("serving.knative.dev", "v1", "services", "Service")
REVISIONS = Resource("serving.knative.dev", "v1", "revisions", "Revision")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
