"""Images that buildah builds from the repository's Dockerfile, and the base image in buildah's storage.

An image's tag is twelve hex digits of a hash over the files that go into it, so an unchanged tree builds nothing.
"""

import ast
import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from devcluster import base_image, host_packages
from devcluster.dockerfile import copied_paths
from devcluster.errors import CommandFailed, UsageError
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import python, run
from devcluster.versions import REPOSITORY, Versions, load

_LABEL = "serval-live.dev/content"
"""Image label that remembers the content hash which the image was built from."""

_TRUST_STORE = "/etc/ssl/certs/ca-certificates.crt"

PREFIX = "dev.local/serval-live"
"""Knative asks no registry about images of dev.local."""


@dataclass(frozen=True)
class BuildRequest:
    """One image: a target of a Dockerfile, and the name to give it."""

    target: str
    tag: str
    context: Path = REPOSITORY

    @property
    def dockerfile(self) -> Path:
        """The only Dockerfile of the repository."""
        return self.context / "Dockerfile"


def ensure_base(settings: Settings | None = None, versions: Versions | None = None) -> str:
    """Puts the base image into buildah's storage unless it is there. Returns its name."""
    settings, versions = settings or Settings(), versions or load()
    host_packages.ensure(*host_packages.IMAGE_PROGRAMS)
    name = base_image.name(versions)
    if exists(name):
        return name
    archive = base_image.root_filesystem(settings, versions)
    with step(f"importing {name} into buildah's storage"):
        container = run(["buildah", "from", "scratch"]).strip()
        try:
            run(["buildah", "add", "--quiet", container, archive, "/"])
            run(["buildah", "config", "--cmd", "/bin/bash", container])
            run(["buildah", "commit", "--quiet", "--format", "docker", container, name])
        finally:
            run(["buildah", "rm", container])
    return name


def exists(name: str) -> bool:
    """Whether buildah's storage has an image of that name."""
    try:
        run(["buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", name])
    except CommandFailed:
        return False
    return True


def content_files(context: Path, target: str) -> list[Path]:
    """Files that go into a target: what its stages copy, as far as git tracks or would track it.

    Everything that git ignores (byte code, environments) is left out by .dockerignore too.
    """
    dockerfile = context / "Dockerfile"
    if not dockerfile.exists():
        raise UsageError(f"{context} has no Dockerfile")
    paths = copied_paths(dockerfile.read_text(encoding="utf-8"), target)
    command = [
        "git",
        "-C",
        str(context),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ]
    listed = run([*command, "Dockerfile", ".dockerignore", *paths])
    names = sorted(set(filter(None, listed.split("\0"))))
    return [context / name for name in names if (context / name).is_file()]


def content_hash(files: Iterable[Path], context: Path, target: str) -> str:
    """Twelve hex digits over names, modes and contents, and the target that is built from them."""
    digest = hashlib.sha256(target.encode())
    for file in files:
        executable = os.access(file, os.X_OK)
        digest.update(f"\0{file.relative_to(context)}\0{executable}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def build(request: BuildRequest) -> str:
    """Builds the image unless an equal one is there already. Returns its content hash."""
    host_packages.ensure(*host_packages.IMAGE_PROGRAMS)
    content = content_hash(content_files(request.context, request.target), request.context, request.target)
    if built_from(request.tag) == content:
        return content
    ensure_base()
    with (
        step(f"building image {request.tag} (target {request.target})"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        command = [
            "buildah",
            "bud",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--layers",
            "--quiet",
            "--format",
            "docker",
        ]
        command += [*_host_access(Path(scratch)), "--label", f"{_LABEL}={content}"]
        command += ["--target", request.target, "--tag", request.tag, "--file", str(request.dockerfile)]
        run([*command, request.context])
    return content


def tag_for(target: str, context: Path = REPOSITORY) -> str:
    """Name with a tag that changes exactly when the content does: dev.local/serval-live/TARGET:HASH."""
    return f"{PREFIX}/{target}:{content_hash(content_files(context, target), context, target)}"


def export(name: str, archive: Path) -> None:
    """Writes an image of buildah's storage as a docker-archive file."""
    if not exists(name):
        unknown(name)
    archive.unlink(missing_ok=True)  # buildah refuses to write into an existing archive
    run(["buildah", "push", "--quiet", name, f"docker-archive:{archive}:{name}"])


def push(name: str) -> str:
    """Pushes an image to the registry that its name says, with buildah's own credentials for it.

    Returns the digest that the registry knows it by, `sha256:…`.
    """
    with step(f"pushing {name}"), tempfile.TemporaryDirectory() as scratch:
        digest = Path(scratch) / "digest"
        run(["buildah", "push", "--quiet", "--digestfile", digest, name])
        return digest.read_text(encoding="utf-8").strip()


def unknown(name: str) -> NoReturn:
    """Raises UsageError for a name that buildah's storage lacks."""
    raise UsageError(f"buildah's storage has no image {name!r}; `buildah images` lists what is there")


def built_from(name: str) -> str | None:
    """Content hash of what an image of buildah's storage was built from; None where there is no such image of ours."""
    if not exists(name):
        return None
    template = f'{{{{ index .OCIv1.Config.Labels "{_LABEL}" }}}}'
    return run(["buildah", "inspect", "--type", "image", "--format", template, name]).strip() or None


def _host_access(scratch: Path) -> list[str]:
    """Lets a build use the host's package index and trust store, without writing either into the image."""
    settings = pip_settings(run([python(), "-m", "pip", "config", "list"]))
    arguments: list[str] = []
    certificates = Path(settings.get("cert", _TRUST_STORE))
    if certificates.exists():
        # Not under its own name: a package of the build may want to write there.
        settings["cert"] = "/etc/pip-certificates.crt"
        arguments += ["--volume", f"{certificates}:{settings['cert']}:ro"]
    for folder in settings.get("find-links", "").split():
        if Path(folder).is_dir():
            arguments += ["--volume", f"{Path(folder).absolute()}:{folder}:ro"]
    configuration = scratch / "pip.conf"
    configuration.touch(mode=0o600)
    lines = [f"{name} = {value}" for name, value in sorted(settings.items())]
    configuration.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    return [*arguments, "--volume", f"{configuration}:/etc/pip.conf:ro"]


def pip_settings(listed: str) -> dict[str, str]:
    """What pip goes by here, from its files and its environment, out of the output of `pip config list`."""
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        name, separator, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if separator and section in ("global", "install", "download", ":env:"):
            settings[option] = str(ast.literal_eval(value))
    return settings
