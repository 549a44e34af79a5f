"""Writes container images as docker-archive files without any container engine.

A program's image is one static binary; Envoy's is the base root filesystem and a binary. Both are only tar files with
three small JSON documents, and equal content gives an equal file. Images that are built by a Dockerfile are
`images`' affair.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class ImageSpec:
    """An image to be written: layers of whole tar files first, then one layer with `files`."""

    name: str
    """Full name with tag, e.g. dev.local/serval-live/coredns:1.13.1."""
    entrypoint: Sequence[str]
    files: Mapping[str, Path] = field(default_factory=dict)
    """Path inside the image without a leading slash -> file here; all are made executable."""
    base_layers: Sequence[Path] = ()
    """Uncompressed tar files, lowest first."""
    user: str = "65532:65532"
    """The same number as the `nonroot` user of common base images."""


def architecture() -> str:
    """This machine's architecture as images name it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def write(spec: ImageSpec, archive: Path) -> None:
    """Writes the archive, replacing what was there only when it is complete."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    top = archive.with_suffix(".layer")
    try:
        _write_layer(spec.files, top)
        layers = [*spec.base_layers, top]
        digests = [_digest(layer) for layer in layers]
        config = json.dumps(_config(spec, digests), sort_keys=True).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        names = [f"{digest}/layer.tar" for digest in digests]
        manifest = [{"Config": config_name, "RepoTags": [spec.name], "Layers": names}]
        with tarfile.open(partial, "w") as tar:
            for layer, name in zip(layers, names, strict=True):
                tar.add(layer, arcname=name, filter=_plain)
            _add_bytes(tar, config_name, config)
            _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
        partial.rename(archive)
    finally:
        top.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)


def _config(spec: ImageSpec, digests: Sequence[str]) -> dict[str, object]:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Entrypoint": list(spec.entrypoint),
            "User": spec.user,
            "Env": [f"PATH={path}"],
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _write_layer(files: Mapping[str, Path], layer: Path) -> None:
    with tarfile.open(layer, "w") as tar:
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
        for name, source in sorted(files.items()):
            tar.add(source, arcname=name, filter=_executable)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode = 0o755
    return _plain(entry)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
