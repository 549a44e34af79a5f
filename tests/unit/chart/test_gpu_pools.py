"""Every cloud's overlay builds, is accepted by the definitions, and asks for what the table of its page promises."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from tests.unit.chart.conftest import ROOT, Object

OVERLAYS = ROOT / "manifests" / "overlays"
CLOUDS = ("gke", "eks-karpenter", "aks", "on-prem")
PAGE = (ROOT / "docs" / "gpu-pools.md").read_text(encoding="utf-8")

Build = Callable[[Path], list[Object]]


def source(objects: list[Object]) -> Object:
    (found,) = [each for each in objects if each["kind"] == "ServalSource"]
    return found


def row(cloud: str) -> str:
    (found,) = [line for line in PAGE.splitlines() if f"`manifests/overlays/{cloud}`" in line]
    return found


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_overlay_builds_with_a_source_that_the_definitions_accept(
    cloud: str, kustomize: Build, chart_docs: ModuleType
) -> None:
    found = source(kustomize(OVERLAYS / cloud))
    jsonschema.validate(found["spec"], chart_docs.crd_spec("servalsources"))
    assert found["spec"]["serving"]["profile"] == "gpu"
    assert "resources" not in found["spec"]["serving"], "they would replace the profile's, its GPU and memory"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_label_and_taint_are_those_of_the_page(cloud: str, kustomize: Build) -> None:
    serving = source(kustomize(OVERLAYS / cloud))["spec"]["serving"]
    ((label, value),) = serving["nodeSelector"].items()
    assert re.search(rf'`{re.escape(label)}: "?{re.escape(value)}"?`', row(cloud))
    for toleration in serving.get("tolerations", []):
        assert re.search(rf"`{re.escape(toleration['key'])}=\w+:{toleration['effect']}`", row(cloud))
    assert ("| none |" in row(cloud)) is ("tolerations" not in serving)


def test_karpenters_pool_gives_what_engines_ask_for(kustomize: Build) -> None:
    objects = kustomize(OVERLAYS / "eks-karpenter")
    (pool,) = [each for each in objects if each["kind"] == "NodePool"]
    template = pool["spec"]["template"]
    serving = source(objects)["spec"]["serving"]
    assert template["metadata"]["labels"] == serving["nodeSelector"]
    tolerated = {(each["key"], each["effect"]) for each in serving["tolerations"]}
    assert {(taint["key"], taint["effect"]) for taint in template["spec"]["taints"]} <= tolerated


def test_no_overlay_is_left_out() -> None:
    assert {each.name for each in OVERLAYS.iterdir()} == {"local", "gpu-cloud", "openshift", *CLOUDS}
