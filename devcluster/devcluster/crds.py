"""The resource types of KServe, Knative Serving and its networking, from the sources of the pinned modules.

Enough for a bare control plane to store InferenceServices, Services, Revisions and PodAutoscalers. Without webhooks,
so defaults and checks beyond the schemas don't happen. The full installation is `install`'s.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from devcluster.progress import step
from devcluster.programs import Programs
from devcluster.shell import run

Manifest = dict[str, Any]


def documents(path: Path) -> Iterator[Manifest]:
    """Objects of a YAML file, or of all YAML files of a folder in order of name, templates left out."""
    files = [path] if path.is_file() else sorted(path.glob("*.yaml"))
    for file in files:
        text = file.read_text(encoding="utf-8")
        if "{{" in text and "templates" in file.parts:
            continue
        for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
            if document:
                yield document


def dump(objects: list[Manifest]) -> str:
    """Several objects as one YAML stream."""
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False)


def knative(programs: Programs) -> list[Manifest]:
    """CRDs of Knative Serving, its networking and its image cache."""
    serving = programs.source("knative", "knative.dev/serving")
    folders = [
        serving / "config/core/300-resources",
        programs.source("knative", "knative.dev/networking") / "config",
        programs.source("knative", "knative.dev/caching") / "config",
    ]
    found = [document for folder in folders for document in documents(folder)]
    return [each for each in found if each["kind"] == "CustomResourceDefinition"]


def kserve(programs: Programs) -> list[Manifest]:
    """CRDs of KServe. Its chart keeps them as plain files; the one template only includes one of the plain files."""
    chart = programs.source("kserve", "github.com/kserve/kserve") / "charts/kserve-crd"
    found = [each for folder in ("templates", "files") for each in documents(chart / folder)]
    return [each for each in found if each["kind"] == "CustomResourceDefinition"]


def install(kubeconfig: Path, programs: Programs | None = None) -> None:
    """Creates all CRDs and returns when the API serves them. A second call changes nothing."""
    programs = programs or Programs.default()
    with step("installing the resource types of Knative and KServe"):
        definitions = [*knative(programs), *kserve(programs)]
        apply_and_wait(kubeconfig, definitions, programs)


def apply_and_wait(kubeconfig: Path, definitions: list[Manifest], programs: Programs) -> None:
    """Server-side apply, since KServe's schemas exceed what client-side apply can keep in an annotation."""
    kubectl = [programs.path("kubectl"), f"--kubeconfig={kubeconfig}"]
    run([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-"], stdin=dump(definitions))
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    run([*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *names])
