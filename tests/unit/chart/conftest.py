"""Renders the chart and the overlays as their users do: with the real helm and the real kubectl."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from devcluster.programs import Programs

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "serval-live"

Object = dict[str, Any]


@dataclass(frozen=True)
class Rendering:
    """What one `helm template` gave: objects, or the complaint of a refusal."""

    objects: list[Object]
    complaint: str = ""

    def of(self, kind: str) -> list[Object]:
        """All objects of one kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str, name: str = "serval-live") -> Object:
        """The object of that kind and name; an AssertionError unless there is exactly one."""
        found = [item for item in self.of(kind) if item["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} objects {kind}/{name}"
        return found[0]


Render = Callable[..., Rendering]

REQUIRED: dict[str, Any] = {
    "image": {"repository": "registry.example.org/operator"},
    "predictor": {"image": {"repository": "registry.example.org/predictor"}},
}
"""The only values without a default."""


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`change` laid over `base`, map by map."""
    out = dict(base)
    for key, value in change.items():
        below = out.get(key)
        out[key] = merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return out


@pytest.fixture(scope="session")
def helm() -> str:
    """Path of the helm program; built on first use."""
    return os.environ.get("HELM") or str(Programs.default().path("helm"))


@pytest.fixture(scope="session")
def render(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """`render(values, *flags, release=…, namespace=…, required=True)`: the objects, or the complaint.

    The same call is rendered once in a session; nobody may change what it gave.
    """
    folder = tmp_path_factory.mktemp("values")
    done: dict[str, Rendering] = {}

    def run(
        values: dict[str, Any] | None = None,
        *flags: str,
        release: str = "serval-live",
        namespace: str = "serval-live",
        required: bool = True,
    ) -> Rendering:
        text = json.dumps(merged(REQUIRED, values or {}) if required else values or {})
        command = [helm, "template", release, str(CHART), "--namespace", namespace, *flags]
        key = f"{command}\n{text}"
        if key not in done:
            file = folder / f"{len(done)}.yaml"
            file.write_text(text)
            done[key] = rendering([*command, "--values", str(file)])
        return done[key]

    return run


def rendering(command: list[str]) -> Rendering:
    """What a `helm template` gives."""
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        return Rendering([], ended.stderr)
    return Rendering([found for found in yaml.load_all(ended.stdout, Loader=yaml.CSafeLoader) if found])


@pytest.fixture(scope="session")
def kustomize() -> Callable[[Path], list[Object]]:
    """Objects that `kubectl kustomize` builds from a folder; kubectl is built on first use."""
    kubectl = str(Programs.default().path("kubectl"))

    def run(folder: Path) -> list[Object]:
        command = [kubectl, "kustomize", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if found]

    return run


@pytest.fixture(scope="module")
def chart_docs() -> ModuleType:
    """The script that closes the definitions' schemas."""
    loader = SourceFileLoader("chart_docs", str(ROOT / "scripts" / "chart-docs"))
    spec = importlib.util.spec_from_loader("chart_docs", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while they are made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "chart_docs", module)
        patch.setattr("sys.dont_write_bytecode", True)
        loader.exec_module(module)
    return module
