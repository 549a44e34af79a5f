"""Images that buildah builds from the repository's Dockerfile, and the base image in buildah's storage.

An image's tag is twelve hex digits of a hash over the files that go into it, so an unchanged tree builds nothing.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from devcluster import base_image, host_packages
from devcluster.errors import CommandFailed, UsageError
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import run
from devcluster.versions import REPOSITORY, Versions, load

_LABEL = "serval-live.dev/content"
"""Image label that remembers the content hash which the image was built from."""

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


def content_files(context: Path) -> list[Path]:
    """Files that a build may copy: what git tracks or would track, minus what .dockerignore's plain lines leave out."""
    listed = run(["git", "-C", context, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    ignored = _ignore_rules(context / ".dockerignore")
    names = sorted(set(filter(None, listed.split("\0"))))
    return [context / name for name in names if not _ignored(name, ignored) and (context / name).is_file()]


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
    if not request.dockerfile.exists():
        raise UsageError(f"{request.context} has no Dockerfile")
    host_packages.ensure(*host_packages.IMAGE_PROGRAMS)
    content = content_hash(content_files(request.context), request.context, request.target)
    if _content_of(request.tag) == content:
        return content
    ensure_base()
    with step(f"building image {request.tag} (target {request.target})"):
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
        command += [*_host_access(), "--label", f"{_LABEL}={content}"]
        command += ["--target", request.target, "--tag", request.tag, "--file", str(request.dockerfile)]
        run([*command, request.context])
    return content


def tag_for(target: str, context: Path = REPOSITORY) -> str:
    """Name with a tag that changes exactly when the content does: dev.local/serval-live/TARGET:HASH."""
    return f"{PREFIX}/{target}:{content_hash(content_files(context), context, target)}"


def export(name: str, archive: Path) -> None:
    """Writes an image of buildah's storage as a docker-archive file."""
    if not exists(name):
        unknown(name)
    archive.unlink(missing_ok=True)  # buildah refuses to write into an existing archive
    run(["buildah", "push", "--quiet", name, f"docker-archive:{archive}:{name}"])


def unknown(name: str) -> NoReturn:
    """Raises UsageError for a name that buildah's storage lacks."""
    raise UsageError(f"buildah's storage has no image {name!r}; `buildah images` lists what is there")


def _content_of(name: str) -> str | None:
    template = f'{{{{ index .Docker.config.Labels "{_LABEL}" }}}}'
    try:
        found = run(["buildah", "inspect", "--type", "image", "--format", template, name]).strip()
    except CommandFailed:
        return None
    return found or None


def _host_access() -> list[str]:
    """Lets a build use the host's package index and trust store, without writing either into the image."""
    arguments: list[str] = []
    for host in ("/etc/pip.conf", str(Path.home() / ".config/pip/pip.conf")):
        if Path(host).exists():
            arguments += ["--volume", f"{host}:/etc/pip.conf:ro"]
            break
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    if bundle.exists():
        arguments += ["--volume", f"{bundle}:{bundle}:ro"]
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    if wheels and Path(wheels).is_dir():
        arguments += ["--volume", f"{wheels}:{wheels}:ro"]
    return arguments


def _ignore_rules(path: Path) -> list[str]:
    if not path.exists():
        return []
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _ignored(name: str, rules: list[str]) -> bool:
    """The subset of .dockerignore that this repository uses: folders and globs, `!` to take back, last match wins."""
    ignored = False
    for rule in rules:
        taken_back = rule.startswith("!")
        pattern = rule.lstrip("!").strip("/")
        path = Path(name)
        matches = any(
            candidate.match(pattern)
            if "/" not in pattern
            else str(candidate) == pattern or candidate.match(pattern)
            for candidate in [path, *path.parents]
            if str(candidate) != "."
        )
        if matches:
            ignored = not taken_back
    return ignored
