"""OpenShift: what the SCC `restricted-v2` admits, for every pod that comes of an installation, and who reaches engines.

The rules are those of `oc describe scc restricted-v2`: the namespace's own user and group ids or none, no privileges,
all capabilities dropped, the runtime's seccomp profile, and volumes that touch no node.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.cluster.builders.jobs import conversion_job
from tests.unit.chart.conftest import ROOT, Object
from tests.unit.operator.builders.test_inferenceservice import template
from tests.unit.operator.builders.test_jobs import planned

OPENSHIFT = ROOT / "manifests" / "overlays" / "openshift"
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
IDS = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions")
"""Whatever a pod asks for here lies outside the range of a namespace that it does not know."""

Build = Callable[[Path], list[Object]]


def refusals(pod: Object) -> list[str]:
    """Why `restricted-v2` would refuse a pod; empty if it would not."""
    of_pod = pod.get("securityContext", {})
    found = [f"pod: {key}" for key in IDS if key in of_pod]
    found += [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for volume in pod.get("volumes", []):
        found += [f"volume {kind}" for kind in volume.keys() - {"name"} - VOLUMES]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name, own = container["name"], {**of_pod, **container.get("securityContext", {})}
        found += [f"{name}: {key}" for key in IDS if key in container.get("securityContext", {})]
        found += [f"{name}: privileged"] * bool(own.get("privileged"))
        found += [f"{name}: may gain privileges"] * (own.get("allowPrivilegeEscalation") is not False)
        found += [f"{name}: capabilities"] * (own.get("capabilities", {}).get("drop") != ["ALL"])
        found += [f"{name}: adds capabilities"] * bool(own.get("capabilities", {}).get("add"))
        found += [f"{name}: seccomp"] * (own.get("seccompProfile", {}).get("type") != "RuntimeDefault")
        found += [f"{name}: may be root"] * (own.get("runAsNonRoot") is not True)
        found += [f"{name}: host port" for port in container.get("ports", []) if "hostPort" in port]
    return found


def operator_pod(objects: list[Object]) -> Object:
    (deployment,) = [found for found in objects if found["kind"] == "Deployment"]
    pod: Object = deployment["spec"]["template"]["spec"]
    return pod


def predictor_pod() -> Object:
    pod: Object = inference_service(template())["spec"]["predictor"]
    return pod


def converter_pod() -> Object:
    pod: Object = conversion_job(planned())["spec"]["template"]["spec"]
    return pod


def test_every_pod_of_an_installation_is_admitted(kustomize: Build) -> None:
    assert refusals(operator_pod(kustomize(OPENSHIFT))) == []
    assert refusals(predictor_pod()) == []
    assert refusals(converter_pod()) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"securityContext": {"fsGroup": 65532}}, "pod: fsGroup"),
        ({"hostNetwork": True}, "hostNetwork"),
        ({"volumes": [{"name": "models", "hostPath": {"path": "/models"}}]}, "volume hostPath"),
    ],
)
def test_what_the_constraint_forbids_would_be_seen(change: dict[str, Any], why: str) -> None:
    assert refusals({**predictor_pod(), **change}) == [why]


def test_a_user_id_in_a_container_would_be_seen() -> None:
    pod = predictor_pod()
    (container,) = pod["containers"]
    container["securityContext"] = {**container["securityContext"], "runAsUser": 65532}
    assert refusals(pod) == [f"{container['name']}: runAsUser"]


def test_serverless_brings_calls_from_its_own_namespaces(kustomize: Build) -> None:
    objects = kustomize(OPENSHIFT)
    (policy,) = [
        found
        for found in objects
        if found["kind"] == "NetworkPolicy" and found["metadata"]["name"] == "serval-live-predictors"
    ]
    (rule,) = policy["spec"]["ingress"]
    (data_plane,) = [each for each in rule["from"] if "podSelector" not in each]
    (names,) = [each["values"] for each in data_plane["namespaceSelector"]["matchExpressions"]]
    assert names == ["knative-serving", "knative-serving-ingress"]
    assert "Route" not in {found["kind"] for found in objects}
