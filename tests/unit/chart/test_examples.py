"""The examples are accepted by the definitions as they are; kubectl would tell a user first of all people."""

import re
import tomllib
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
import yaml

from tests.unit.chart.conftest import ROOT, Render

EXAMPLES = sorted((ROOT / "manifests" / "examples").glob("*.yaml"))
PLURALS = {"ServalSource": "servalsources", "TranslationEngine": "translationengines"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.stem))
def test_example_uses_only_fields_that_exist(file: Path, chart_docs: ModuleType) -> None:
    documents = [found for found in yaml.safe_load_all(file.read_text()) if found]
    assert documents
    for found in documents:
        jsonschema.validate(found["spec"], chart_docs.crd_spec(PLURALS[found["kind"]]))


def test_a_misspelt_field_of_an_example_would_be_noticed(chart_docs: ModuleType) -> None:
    found = yaml.safe_load((ROOT / "manifests/examples/serval-source-gpu.yaml").read_text())
    found["spec"]["serving"]["scaleDownDelays"] = "10m"
    with pytest.raises(jsonschema.ValidationError, match="scaleDownDelays"):
        jsonschema.validate(found["spec"], chart_docs.crd_spec("servalsources"))


def test_values_of_the_gpu_example_are_accepted_by_the_chart(render: Render) -> None:
    found = yaml.safe_load((ROOT / "manifests/examples/serval-source-gpu.yaml").read_text())
    values = {"source": {"create": True, "spec": found["spec"]}}
    made = render(values, "--api-versions", "serval-live.dev/v1alpha1").one("ServalSource", "serval")
    assert made["spec"] == found["spec"]


def extras() -> dict[str, list[str]]:
    """Libraries by extra of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: [re.split(r"[\[<>=!~; ]", library)[0] for library in libraries]
        for extra, libraries in groups.items()
    }


def test_every_library_says_why_it_is_there() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    unexplained = [
        (extra, library)
        for extra, libraries in extras().items()
        for library in libraries
        if library != "serval-live" and f"`{library}`" not in page
    ]
    assert unexplained == []


@pytest.mark.parametrize(
    "page",
    [
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "README.md",
        ROOT / "manifests/README.md",
        ROOT / "charts/serval-live/README.md",
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    broken = [target for target in targets if not (page.parent / target).exists()]
    assert broken == []
