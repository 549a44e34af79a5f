"""Gets images into the node's containerd: archives of ours, and what buildah's storage holds."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from devcluster import images
from devcluster.errors import CommandFailed
from devcluster.node import Node
from devcluster.progress import step
from devcluster.shell import run


def import_archives(node: Node, archives: Sequence[Path]) -> None:
    """Imports docker-archive files."""
    for archive in archives:
        node.ctr("images", "import", archive)


def load_image(node: Node, name: str) -> None:
    """Loads an image unless the node has the very same one. Raises UsageError for an unknown name."""
    if not images.exists(name):
        images.unknown(name)
    if node_digest(node, name) == _storage_digest(name):
        return
    with (
        step(f"loading {name} into the cluster"),
        tempfile.TemporaryDirectory(dir=node.settings.state) as scratch,
    ):
        archive = Path(scratch) / "image.tar"
        images.export(name, archive)
        node.ctr("images", "import", archive)


def node_digest(node: Node, name: str) -> str | None:
    """Digest of the configuration of an image that the node has; None where it has none of that name."""
    reference = qualified(name)
    listed = node.ctr("images", "list", f"name=={reference}")
    rows = [line.split() for line in listed.splitlines()[1:]]
    if not rows:
        return None
    try:
        manifest = json.loads(node.ctr("content", "get", rows[0][2]))
        return str(manifest["config"]["digest"])
    except (CommandFailed, KeyError):  # an index of several platforms: not an image of ours
        return None


def qualified(name: str) -> str:
    """The full reference, as the kubelet asks for it: debian:x is docker.io/library/debian:x."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if rest else f"docker.io/library/{name}"


def _storage_digest(name: str) -> str:
    found = run(["buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", name]).strip()
    return found if found.startswith("sha256:") else f"sha256:{found}"
