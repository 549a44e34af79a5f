"""The schema of the chart's values is closed, and every value that is documented does something."""

import copy
import json
from typing import Any

import pytest
import yaml

from tests.unit.chart.conftest import CHART, REQUIRED, Render, merged

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())

DIGEST = "sha256:" + "0" * 64


def nested(path: str, value: Any) -> dict[str, Any]:
    """`nested("a.b", 1)` is `{"a": {"b": 1}}`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


REFUSED = [
    ("misspelt key", {"replicaCounts": 2}, "replicaCounts"),
    ("misspelt key below", {"image": {"repo": "x"}}, "/image"),
    ("misspelt key deep below", {"metrics": {"serviceMonitor": {"enable": True}}}, "/metrics/serviceMonitor"),
    ("string for a number", {"replicaCount": "2"}, "/replicaCount"),
    ("string for a truth", {"crds": {"enabled": "yes please"}}, "/crds/enabled"),
    ("negative number", {"replicaCount": -1}, "/replicaCount"),
    ("unknown word", {"log": {"level": "verbose"}}, "/log/level"),
    ("null for a map", {"image": None}, "missing property 'image'"),
    ("null for a number", {"probes": {"liveness": {"periodSeconds": None}}}, "/probes/liveness"),
    ("list for a map", {"nodeSelector": ["gpu"]}, "/nodeSelector"),
    ("map for a list", {"watchNamespaces": {"a": "b"}}, "/watchNamespaces"),
    ("impossible namespace", {"watchNamespaces": ["Not_A_Name"]}, "/watchNamespaces/0"),
    ("same namespace twice", {"watchNamespaces": ["a", "a"]}, "/watchNamespaces"),
    ("pull secret without a name", {"imagePullSecrets": [{}]}, "/imagePullSecrets/0"),
    ("digest that is none", {"predictor": {"image": {"digest": "v1"}}}, "/predictor/image/digest"),
    ("unknown resource list", {"resources": {"limit": {"cpu": 1}}}, "/resources"),
    ("misspelt setting", {"extraEnv": {"SERVAL_LIVE_OPERATOR_SWEEP_EVRY": "60"}}, "/extraEnv"),
    (
        "setting that has a value of its own",
        {"extraEnv": {"SERVAL_LIVE_OPERATOR_LOG_LEVEL": "debug"}},
        "/extraEnv",
    ),
    (
        "no data plane at all",
        {"networkPolicy": {"dataPlaneNamespaces": []}},
        "/networkPolicy/dataPlaneNamespaces",
    ),
    ("misspelt field of the source", {"source": {"spec": {"url": "http://s", "urll": "x"}}}, "/source/spec"),
]


@pytest.mark.parametrize(("values", "path"), [pytest.param(v, p, id=name) for name, v, p in REFUSED])
def test_g5_wrong_values_are_refused_with_their_path(
    render: Render, values: dict[str, Any], path: str
) -> None:
    complaint = render(values).complaint
    assert "values don't meet the specifications of the schema" in complaint
    assert path in complaint


@pytest.mark.parametrize("path", ["image.repository", "predictor.image.repository"])
def test_a_registry_is_asked_for_and_never_invented(render: Render, path: str) -> None:
    values = merged(REQUIRED, nested(path, ""))
    assert f"at '/{path.replace('.', '/')}': minLength" in render(values, required=False).complaint


def objects_with_properties(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every map of known keys in the schema, those of the source's spec included."""
    found = [(path or "/", schema)] if "properties" in schema else []
    for key, child in schema.get("properties", {}).items():
        found += objects_with_properties(child, f"{path}/{key}")
    for child in schema.get("anyOf", []):
        found += objects_with_properties(child, path)
    if isinstance(schema.get("items"), dict):
        found += objects_with_properties(schema["items"], f"{path}/*")
    return found


def test_g5_every_map_of_the_schema_is_closed() -> None:
    maps = objects_with_properties(SCHEMA)
    assert {"/image", "/source/spec"} <= {path for path, _ in maps}
    assert [path for path, schema in maps if schema.get("additionalProperties") is not False] == []


def leaves(schema: dict[str, Any], path: str = "") -> list[str]:
    """Paths of all values that a person sets."""
    if "properties" not in schema or path in OTHER:
        return [path]
    return [
        leaf
        for key, child in schema["properties"].items()
        if key != "global"
        for leaf in leaves(child, f"{path}.{key}".lstrip("."))
    ]


SOURCE = {
    "url": "https://serval.example.org",
    "credentialsSecretRef": {"name": "serval-key"},
    "artifactStore": {"uri": "s3://bucket/live", "secretRef": {"name": "store"}},
}

OTHER: dict[str, Any] = {
    "image.digest": DIGEST,
    "image.pullPolicy": "Always",
    "predictor.image.digest": DIGEST,
    "predictor.gpuImage.digest": DIGEST,
    "imagePullSecrets": [{"name": "registry"}],
    "watchNamespaces": ["ruth", "jonah"],
    "log.level": "debug",
    "log.format": "json",
    "extraEnv": {"SERVAL_LIVE_OPERATOR_SWEEP_EVERY": "60"},
    "resources": {"requests": {"cpu": 1}},
    "podSecurityContext": {"fsGroup": 0},
    "securityContext": {"privileged": False},
    "serviceAccount.annotations": {"a": "b"},
    "workload.serviceAccount.annotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "networkPolicy.dataPlaneNamespaces": ["istio-system"],
    "networkPolicy.clientNamespaces": ["web"],
    "networkPolicy.clientLabels": {"a": "b"},
    "metrics.serviceMonitor.labels": {"a": "b"},
    "metrics.serviceMonitor.interval": "10s",
    "metrics.rules.labels": {"a": "b"},
    "metrics.dashboard.labels": {"a": "b"},
    "source.spec": {**SOURCE, "url": "https://other.example.org"},
}
"""Another valid value, where flipping, adding one or another word is not one."""

EVERYTHING_ON: dict[str, Any] = {
    "predictor": {"gpuImage": {"repository": "registry.example.org/gpu"}},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "source": {"create": True, "spec": SOURCE},
}
"""A value of a switched-off part shows only when the part is on."""

API = ("--api-versions", "serval-live.dev/v1alpha1")


def another(path: str) -> Any:
    """A valid value that differs from the default at this path."""
    if path in OTHER:
        return OTHER[path]
    value: Any = merged(DEFAULTS, EVERYTHING_ON)
    for key in path.split("."):
        value = value[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    assert isinstance(value, str), f"{path}: say in OTHER which value to try"
    return "another"


@pytest.mark.parametrize("path", leaves(SCHEMA))
def test_g5_every_documented_value_changes_what_is_installed(render: Render, path: str) -> None:
    usual = render(EVERYTHING_ON, *API)
    assert usual.complaint == ""
    change = nested(path, another(path))
    if path == "metrics.service.enabled":
        change = merged(change, {"metrics": {"serviceMonitor": {"enabled": False}}})
        usual = render(merged(EVERYTHING_ON, {"metrics": {"serviceMonitor": {"enabled": False}}}), *API)
    changed = render(merged(EVERYTHING_ON, change), *API)
    assert changed.complaint == ""
    assert changed.objects != usual.objects


def test_defaults_are_valid_once_the_registry_is_named(render: Render) -> None:
    values = merged(copy.deepcopy(DEFAULTS), REQUIRED)
    assert render(values, required=False).complaint == ""
