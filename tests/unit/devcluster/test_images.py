"""Which files make an image's tag, and what an archive contains."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from devcluster import image_archive, images
from devcluster.containers import qualified
from devcluster.dockerfile import copied_paths
from devcluster.errors import UsageError
from devcluster.image_archive import ImageSpec

DOCKERFILE = """
# COPY nothing of this comment
FROM debian:bookworm-slim AS python
FROM python AS builder
COPY pyproject.toml \\
     constraints.txt ./
FROM builder AS one-builder
COPY contract contract
COPY one one
FROM python AS one
COPY --from=one-builder /opt /opt
FROM builder AS two
COPY --chown=0:0 two two
"""


def test_a_target_depends_on_what_its_stages_copy_and_on_nothing_else() -> None:
    assert copied_paths(DOCKERFILE, "one") == ["constraints.txt", "contract", "one", "pyproject.toml"]
    assert copied_paths(DOCKERFILE, "two") == ["constraints.txt", "pyproject.toml", "two"]


def test_an_unknown_target_is_named_together_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"three.*one"):
        copied_paths(DOCKERFILE, "three")


def test_add_is_refused_since_it_hides_what_an_image_depends_on() -> None:
    with pytest.raises(UsageError, match="ADD"):
        copied_paths(DOCKERFILE + "ADD x x\n", "one")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the Dockerfile above."""
    for name in ("pyproject.toml", "constraints.txt", "contract/c.py", "one/a.py", "two/b.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*.pyc\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_a_tag_follows_the_files_of_its_own_target_only(tree: Path) -> None:
    one, two = images.tag_for("one", tree), images.tag_for("two", tree)
    (tree / "one/a.py").write_text("changed", encoding="utf-8")
    assert images.tag_for("one", tree) != one
    assert images.tag_for("two", tree) == two


def test_a_tag_follows_names_and_modes_too(tree: Path) -> None:
    seen = {images.tag_for("one", tree)}
    (tree / "one/a.py").chmod(0o755)
    seen.add(images.tag_for("one", tree))
    (tree / "one/a.py").rename(tree / "one/z.py")
    seen.add(images.tag_for("one", tree))
    (tree / "one/new.py").write_text("new, not committed", encoding="utf-8")
    seen.add(images.tag_for("one", tree))
    assert len(seen) == 4


def test_ignored_files_do_not_change_a_tag(tree: Path) -> None:
    before = images.tag_for("one", tree)
    (tree / "one/a.pyc").write_bytes(b"byte code")
    assert images.tag_for("one", tree) == before


def test_a_tag_is_a_name_that_knative_asks_no_registry_about(tree: Path) -> None:
    prefix, _, tag = images.tag_for("one", tree).rpartition(":")
    assert prefix == "dev.local/serval-live/one"
    assert len(tag) == 12
    int(tag, 16)


def read_json(archive: tarfile.TarFile, name: str) -> object:
    member = archive.extractfile(name)
    assert member is not None
    return json.loads(member.read())


def test_an_archive_holds_the_binary_its_entry_point_and_true_digests(tmp_path: Path) -> None:
    binary = tmp_path / "server"
    binary.write_bytes(b"program")
    target = tmp_path / "image.tar"
    image_archive.write(ImageSpec("dev.local/x:1", ["/server"], {"server": binary}), target)
    with tarfile.open(target) as archive:
        manifest = read_json(archive, "manifest.json")
        assert isinstance(manifest, list)
        assert manifest[0]["RepoTags"] == ["dev.local/x:1"]
        config = read_json(archive, manifest[0]["Config"])
        assert isinstance(config, dict)
        assert config["config"]["Entrypoint"] == ["/server"]
        (name,) = manifest[0]["Layers"]
        layer = archive.extractfile(name)
        assert layer is not None
        content = tmp_path / "layer.tar"
        content.write_bytes(layer.read())
    digest = subprocess.run(
        ["sha256sum", content], check=True, capture_output=True, text=True
    ).stdout.split()[0]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    with tarfile.open(content) as inner:
        member = inner.getmember("server")
        assert member.mode == 0o755
        assert inner.getmember("tmp").mode == 0o1777


def test_equal_content_gives_an_equal_archive(tmp_path: Path) -> None:
    results = []
    for attempt in ("a", "b"):
        binary = tmp_path / attempt / "server"
        binary.parent.mkdir()
        binary.write_bytes(b"program")
        target = tmp_path / attempt / "image.tar"
        image_archive.write(ImageSpec("dev.local/x:1", ["/server"], {"server": binary}), target)
        results.append(target.read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("debian:bookworm-slim", "docker.io/library/debian:bookworm-slim"),
        ("owner/image:1", "docker.io/owner/image:1"),
        ("dev.local/serval-live/x:1", "dev.local/serval-live/x:1"),
        ("localhost/x:1", "localhost/x:1"),
    ],
)
def test_names_are_completed_as_the_kubelet_completes_them(name: str, reference: str) -> None:
    assert qualified(name) == reference


def test_pip_settings_of_files_and_environment_are_read() -> None:
    listed = ":env:.index-url='https://index.example/simple'\nglobal.cert='/etc/ca.crt'\nglobal.find-links='/a\\n/b'\n"
    assert images.pip_settings(listed) == {
        "index-url": "https://index.example/simple",
        "cert": "/etc/ca.crt",
        "find-links": "/a\n/b",
    }


DIGEST = "sha256:" + "1f" * 32


def program(folder: Path, name: str, text: str) -> None:
    """A program of this name, first in the search path of whoever puts `folder` there."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def test_a_push_gives_the_digest_that_the_registry_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path / "bin",
        "buildah",
        f'[ "$3" = --digestfile ] && echo "$5" >{tmp_path}/to && echo {DIGEST} >"$4"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert images.push("registry.example.org/serval-live/operator:1") == DIGEST
    assert (tmp_path / "to").read_text().strip() == "registry.example.org/serval-live/operator:1"


def test_pushed_images_are_named_to_helm_by_digest(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    copied = tmp_path / "scripts" / "images"
    copied.parent.mkdir()
    copied.write_bytes((root / "scripts" / "images").read_bytes())
    program(tmp_path / "bin", "python", f'[ "$1" = -c ] && echo 0.1.0 || echo "$6@{DIGEST}"')
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(copied), "registry.example.org:5000"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    repository = "registry.example.org:5000/serval-live"
    assert done.stdout.split() == [
        word
        for value, target in (
            ("image", "operator"),
            ("predictor.image", "predictor"),
            ("predictor.gpuImage", "predictor-gpu"),
        )
        for word in (
            "--set",
            f"{value}.repository={repository}/{target}",
            "--set",
            f"{value}.digest={DIGEST}",
        )
    ]
    assert (tmp_path / "build" / "images" / "helm-flags").read_text() == done.stdout
