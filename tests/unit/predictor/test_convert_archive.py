"""An archive is refused as a whole for one member that no model archive needs; nothing is written outside."""

import contextlib
import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.convert.archive import Limits, Unpacked, unpack
from nllb_predictor.convert.names import CHECKPOINT_FILES
from nllb_predictor.errors import BrokenArchive, EmptyArchive, UnsafeArchive
from tests.support.archives import fix_header_checksum, folder_members, member, rewritten, write_archive
from tests.support.cases import case
from tests.support.checkpoints import make_checkpoint

CONFIG = member("config.json", b"{}")


def unpack_file(archive: Path, target: Path, limits: Limits | None = None) -> tuple[str, ...]:
    target.mkdir()
    with archive.open("rb") as file:
        return unpack(file, target, archive.name, limits).written


def as_it_says(one: tarfile.TarInfo) -> str:
    """The member's name, taken as it is."""
    return one.name


@case("C5", breaks="nllb_predictor.convert.archive:_plain_name", naive=as_it_says)
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../config.json"), "no plain file name"),
        (member("a/../../config.json"), "no plain file name"),
        (member("/etc/config.json"), "no plain file name"),
        (member("models/config.json"), "no plain file name"),
        (member("..\\config.json"), "no plain file name"),
        (member("config\n.json"), "no plain file name"),
        (member(".."), "no plain file name"),
        (member("config.json", kind=tarfile.SYMTYPE, link="/etc/passwd"), "symbolic link"),
        (member("tokenizer.json", kind=tarfile.LNKTYPE, link="config.json"), "hard link"),
        (member("model.safetensors", kind=tarfile.CHRTYPE), "device"),
        (member("model.safetensors", kind=tarfile.BLKTYPE), "device"),
        (member("model.safetensors", kind=tarfile.FIFOTYPE), "pipe"),
        (member("sub", kind=tarfile.DIRTYPE), "folder"),
        (member("model.safetensors", kind=tarfile.GNUTYPE_SPARSE), "not a regular file"),
        (member("x" * 300 + ".safetensors"), "no plain file name"),
        (member("caf\udce9.safetensors"), "not UTF-8"),
    ],
)
def test_c5_an_unsafe_member_refuses_the_archive(
    tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], why: str
) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [CONFIG, bad, member("model.safetensors", b"late")])
    with pytest.raises(UnsafeArchive, match=why):
        unpack_file(archive, tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"a.tar.gz", "config.json"}
    assert (tmp_path / "out/config.json").read_bytes() == b"{}"
    assert not (tmp_path / "out/config.json").is_symlink()


@given(
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60),
    kind=st.sampled_from(
        [
            tarfile.REGTYPE,
            tarfile.AREGTYPE,
            tarfile.SYMTYPE,
            tarfile.LNKTYPE,
            tarfile.CHRTYPE,
            tarfile.CONTTYPE,
            b"V",
        ]
    ),
)
@settings(deadline=None)
def test_whatever_a_member_is_called_only_plain_files_of_a_checkpoint_are_written(
    tmp_path_factory: pytest.TempPathFactory, name: str, kind: bytes
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    (folder / "outside").mkdir()
    archive = write_archive(folder / "a.tar.gz", [member(name, b"abc", kind, "../outside/x")])
    with contextlib.suppress(UnsafeArchive, BrokenArchive, EmptyArchive):
        unpack_file(archive, folder / "out")
    written = [path for path in folder.rglob("*") if path.is_file() and path != archive]
    assert all(path.parent == folder / "out" and not path.is_symlink() for path in written)
    assert all(path.name in CHECKPOINT_FILES or path.name.endswith(".safetensors") for path in written)
    assert not any((folder / "outside").iterdir())


def test_what_a_conversion_does_not_read_stays_in_the_archive(tmp_path: Path) -> None:
    extra = [
        member("training_args.bin", b"\x80\x02cposix\nsystem\n."),
        member("trainer_state.json"),
        member("._x"),
    ]
    archive = write_archive(tmp_path / "a.tar.gz", [*extra, CONFIG])
    assert unpack_file(archive, tmp_path / "out") == ("config.json",)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["config.json"]


def test_a_leading_dot_folder_is_how_tar_itself_packs(tmp_path: Path) -> None:
    members = [member("./", kind=tarfile.DIRTYPE), member("./config.json", b"{}")]
    archive = write_archive(tmp_path / "a.tar.gz", members)
    assert unpack_file(archive, tmp_path / "out") == ("config.json",)


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [CONFIG, member("./config.json", b"[]")])
    with pytest.raises(UnsafeArchive, match="two members"):
        unpack_file(archive, tmp_path / "out")


def without_limits(unzipped: gzip.GzipFile, folder: Path, name: str, limits: Limits) -> Unpacked:
    """As the standard library unpacks: everything, to wherever it says."""
    with tarfile.open(fileobj=unzipped, mode="r|") as tar:
        tar.extractall(folder, filter="data")
    return Unpacked(("all",), ())


@case("C5", breaks="nllb_predictor.convert.archive:_unpack_tar", naive=without_limits)
def test_c5_more_members_than_allowed_are_refused(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [member(f"{i}.txt") for i in range(12)])
    with pytest.raises(UnsafeArchive, match="more than 10 members"):
        unpack_file(archive, tmp_path / "out", Limits(members=10))


@case("C5", breaks="nllb_predictor.convert.archive:_unpack_tar", naive=without_limits)
def test_c5_more_bytes_than_allowed_are_refused_before_they_are_written(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "bomb.tar.gz", [member("model.safetensors", bytes(5_000_000))])
    assert archive.stat().st_size < 10_000
    with pytest.raises(UnsafeArchive, match="more than 1000000 bytes"):
        unpack_file(archive, tmp_path / "out", Limits(bytes=1_000_000))
    assert not any((tmp_path / "out").iterdir())


def test_an_endless_tail_after_the_last_member_is_refused(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [CONFIG])
    archive = rewritten(archive, lambda content: content.extend(bytes(5_000_000)))
    with pytest.raises(UnsafeArchive, match="without end"):
        unpack_file(archive, tmp_path / "out", Limits(bytes=1_000_000))


def test_a_long_name_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [member("x" * 200_000)])
    with pytest.raises(UnsafeArchive, match="extended header"):
        unpack_file(archive, tmp_path / "out")


def test_a_forged_size_in_a_header_is_no_way_out(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [CONFIG, member("model.safetensors", b"abc")])

    def forge(content: bytearray) -> None:
        content[1024 + 124 : 1024 + 136] = b"77777777777\0"
        fix_header_checksum(content, 1024)

    with pytest.raises(BrokenArchive):
        unpack_file(rewritten(archive, forge), tmp_path / "out")


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_an_archive_that_is_cut_off_is_broken_wherever_the_cut_is(tmp_path: Path, keep: float) -> None:
    whole = write_archive(tmp_path / "a.tar.gz", folder_members(make_checkpoint(tmp_path / "checkpoint")))
    content = whole.read_bytes()
    whole.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(BrokenArchive, match=r"a\.tar\.gz"):
        unpack_file(whole, tmp_path / "out")


def test_a_cut_at_a_members_border_shows_in_the_gzip_checksum(tmp_path: Path) -> None:
    """The tar inside looks complete; without reading the checksum half a model would pass."""
    packed = io.BytesIO()
    compressor = gzip.GzipFile(fileobj=packed, mode="wb")
    plain = write_archive(tmp_path / "a.tar", [CONFIG, member("model.safetensors", bytes(2000))], "w")
    compressor.write(plain.read_bytes()[:1024])
    compressor.flush()
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(packed.getvalue())
    with pytest.raises(BrokenArchive):
        unpack_file(archive, tmp_path / "out")


def test_a_flipped_bit_shows_in_the_gzip_checksum(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [member("model.safetensors", bytes(range(256)) * 40)])
    content = bytearray(archive.read_bytes())
    content[-8] ^= 1
    archive.write_bytes(content)
    with pytest.raises(BrokenArchive):
        unpack_file(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [b"", b"not a gzip", gzip.compress(b""), gzip.compress(b"not a tar" * 100)],
    ids=["nothing", "no gzip", "nothing inside", "no tar inside"],
)
def test_what_is_no_gzip_tar_is_broken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(BrokenArchive):
        unpack_file(tmp_path / "a.tar.gz", tmp_path / "out")


def test_an_archive_without_members_has_a_reason_of_its_own(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar.gz", [])
    with pytest.raises(EmptyArchive, match="--base"):
        unpack_file(archive, tmp_path / "out")
