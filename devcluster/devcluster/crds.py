"""The resource types of KServe, Knative Serving and its networking, from the sources of the pinned modules.

Enough for a bare control plane to store InferenceServices, Services, Revisions and PodAutoscalers. Without webhooks,
so defaults and checks beyond the schemas don't happen. The full installation is `install`'s.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from devcluster.errors import CommandFailed
from devcluster.programs import Programs
from devcluster.progress import step
from devcluster.shell import run
from devcluster.waiting import until

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


def every(programs: Programs) -> str:
    """All of them as one JSON list, kept in the cache: parsing megabytes of YAML takes seconds."""
    versions = programs.versions
    name = f"crds-{versions.knative_serving}-{versions.kserve}.json"
    cached = programs.settings.cache / "manifests" / name
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        definitions = [*knative(programs), *kserve(programs)]
        with tempfile.NamedTemporaryFile("w", dir=cached.parent, encoding="utf-8", delete=False) as partial:
            json.dump({"apiVersion": "v1", "kind": "List", "items": definitions}, partial)
        Path(partial.name).rename(cached)
    return cached.read_text(encoding="utf-8")


def install(kubeconfig: Path, programs: Programs | None = None) -> None:
    """Creates all CRDs and returns when the API serves them. A second call changes nothing."""
    programs = programs or Programs.default()
    kubectl: list[str | Path] = [programs.path("kubectl"), f"--kubeconfig={kubeconfig}"]
    with step("installing the resource types of Knative and KServe"):
        install_with(lambda arguments, stdin: run([*kubectl, *arguments], stdin=stdin), programs)


def install_with(kubectl: Callable[[list[str], str | None], str], programs: Programs) -> None:
    """The same through any way to call kubectl.

    Server-side apply, since KServe's schemas exceed what client-side apply can keep in an annotation.
    """
    definitions = every(programs)
    flags = ["--server-side", "--force-conflicts", "--field-manager=devcluster", "--validate=false"]
    kubectl(["apply", *flags, "-f", "-"], definitions)
    names = [f"crd/{each['metadata']['name']}" for each in json.loads(definitions)["items"]]

    def established() -> bool:
        try:
            kubectl(["wait", "--for=condition=Established", "--timeout=60s", *names], None)
        except CommandFailed:  # kubectl stumbles over a type whose conditions are not there yet
            return False
        return True

    until("the resource types", established, timeout_s=60, pause_s=0.2)
