"""`kubectl apply -k` and `helm install` give the same objects for the same settings."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.chart.conftest import CHART, ROOT, Object, Render

HELM_ONLY = {"helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy"}
"""Marks by which Helm knows what it made; without meaning to Kubernetes."""


def without_marks(value: Any) -> Any:
    """A copy of an object without the marks, and without maps that held nothing else."""
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: without_marks(item) for key, item in value.items() if key not in HELM_ONLY}
    if isinstance(out.get("env"), list):
        # Kubernetes merges this list by name; its order means nothing as long as no value refers to another.
        assert "$(" not in str(out["env"])
        out["env"] = sorted(out["env"], key=lambda variable: str(variable["name"]))
    return {key: item for key, item in out.items() if key not in {"labels", "annotations"} or item}


def by_identity(objects: list[Object]) -> dict[tuple[str, str, str, str], Any]:
    """Objects by kind, namespace and name; an AssertionError if two share them."""
    found = {}
    for item in objects:
        metadata = item["metadata"]
        key = (item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"twice: {key}"
        found[key] = without_marks(item)
    return found


@pytest.mark.parametrize("overlay", ["local", "gpu-cloud", "openshift"])
def test_g5_overlay_and_chart_give_the_same_objects(
    overlay: str, render: Render, kustomize: Callable[[Path], list[Object]]
) -> None:
    values = yaml.safe_load((CHART / "ci" / f"{overlay}-values.yaml").read_text())
    from_helm = by_identity(render(values, required=False).objects)
    from_kustomize = by_identity(kustomize(ROOT / "manifests" / "overlays" / overlay))
    # `helm install --create-namespace` makes the namespace without an object of the chart.
    del from_kustomize[("v1", "Namespace", "", "serval-live")]
    assert from_kustomize.keys() == from_helm.keys()
    for key, made in from_kustomize.items():
        assert made == from_helm[key], key


def test_overlays_differ_from_each_other(kustomize: Callable[[Path], list[Object]]) -> None:
    local, cloud = (
        by_identity(kustomize(ROOT / "manifests" / "overlays" / name)) for name in ("local", "gpu-cloud")
    )
    deployment = ("apps/v1", "Deployment", "serval-live", "serval-live")
    assert local[deployment] != cloud[deployment]


@pytest.mark.parametrize("script", ["chart-docs", "render-manifests"])
def test_generated_files_are_fresh(script: str, helm: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HELM": helm},
    )
    assert done.returncode == 0, f"run scripts/{script}:\n{done.stdout}{done.stderr}"


def test_a_base_for_another_namespace_moves_everything_but_the_knative_role(
    helm: str, tmp_path: Path
) -> None:
    subprocess.run(
        [
            sys.executable,
            str(ROOT / "scripts" / "render-manifests"),
            "--namespace",
            "ruth",
            "--out",
            str(tmp_path),
        ],
        check=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HELM": helm},
    )
    objects = [
        found for file in tmp_path.glob("*.yaml") for found in yaml.safe_load_all(file.read_text()) if found
    ]
    namespaces = {
        found["metadata"]["namespace"] for found in objects if "namespace" in found.get("metadata", {})
    }
    assert namespaces == {"ruth", "knative-serving"}


def test_applying_the_definitions_alone_brings_nothing_else(
    kustomize: Callable[[Path], list[Object]],
) -> None:
    objects = kustomize(ROOT / "manifests" / "crds")
    assert [(found["kind"], found["metadata"]["name"]) for found in objects] == [
        ("CustomResourceDefinition", "servalsources.serval-live.dev"),
        ("CustomResourceDefinition", "translationengines.serval-live.dev"),
    ]
