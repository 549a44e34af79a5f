"""Choices from what the machine offers."""

import sys
from pathlib import Path

import pytest

from nllb_predictor.engine import hardware
from nllb_predictor.errors import DeviceMissing, UsageError
from nllb_predictor.settings import ServeSettings
from tests.support.cases import case


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({}, 8),
    ],
)
def test_cores_are_those_of_the_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert hardware.cores(tmp_path) == cores


def test_threads_that_are_not_set_let_two_batches_fill_all_cores() -> None:
    assert hardware.threads(0, 0, "cpu", 4) == hardware.Threads(2, 2)
    assert hardware.threads(0, 0, "cpu", 2) == hardware.Threads(2, 1)
    assert hardware.threads(0, 0, "cpu", 5) == hardware.Threads(2, 2)
    assert hardware.threads(0, 0, "cpu", 1) == hardware.Threads(1, 1)
    assert hardware.threads(0, 0, "cuda", 8) == hardware.Threads(1, 1)


def test_threads_that_are_set_are_kept() -> None:
    assert hardware.threads(1, 0, "cpu", 4) == hardware.Threads(1, 4)
    assert hardware.threads(0, 1, "cpu", 4) == hardware.Threads(2, 1)
    assert hardware.threads(2, 0, "cpu", 4) == hardware.Threads(2, 2)
    assert hardware.threads(8, 0, "cpu", 4) == hardware.Threads(8, 1)
    assert hardware.threads(3, 5, "cpu", 4) == hardware.Threads(3, 5)


def test_batches_are_smaller_on_a_cpu_unless_told_otherwise() -> None:
    assert [hardware.batch_segments(0, device) for device in ("cpu", "cuda")] == [32, 64]
    assert [hardware.batch_segments(100, device) for device in ("cpu", "cuda")] == [100, 100]


def test_a_gpu_is_taken_if_there_is_one_and_demanded_only_where_it_is() -> None:
    assert hardware.choose_device("auto", gpus=0) == "cpu"
    assert hardware.choose_device("auto", gpus=1) == "cuda"
    assert hardware.choose_device("cpu", gpus=1) == "cpu"
    with pytest.raises(DeviceMissing):
        hardware.choose_device("cuda", gpus=0)


def test_each_visible_gpu_gets_a_copy_unless_some_are_named() -> None:
    assert hardware.choose_gpus((), gpus=3) == [0, 1, 2]
    assert hardware.choose_gpus((2, 0), gpus=3) == [2, 0]
    with pytest.raises(DeviceMissing, match="GPU 3"):
        hardware.choose_gpus((0, 3), gpus=3)


def test_named_gpus_are_numbers_each_once() -> None:
    assert ServeSettings(device_index="0,2").gpus == (0, 2)
    assert ServeSettings().gpus == ()
    for wrong in ("a", "0,", "0;1", "-1", "1,1"):
        with pytest.raises(UsageError, match="--device-index"):
            ServeSettings(device_index=wrong)


CPU = {"float32", "int8", "int8_float32", "int16"}


@case(
    "p39", breaks="nllb_predictor.engine.hardware:choose_compute_type", naive=lambda wanted, supported: wanted
)
def test_p39_a_type_that_the_device_lacks_falls_back_to_one_that_it_has() -> None:
    without_int8 = {"float32", "float16", "bfloat16"}
    for wanted in ("int8", "int8_float16", "int8_bfloat16", "int16"):
        assert hardware.choose_compute_type(wanted, lambda: without_int8) in without_int8


@case(
    "p40", breaks="nllb_predictor.engine.hardware:choose_compute_type", naive=lambda wanted, supported: wanted
)
def test_p40_half_precision_on_a_cpu_becomes_the_nearest_type_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert hardware.choose_compute_type("float16", lambda: CPU) == "float32"
    assert hardware.choose_compute_type("int8_float16", lambda: CPU) == "int8_float32"
    assert "wanted=float16 used=float32" in caplog.text


def test_a_type_that_the_device_has_is_kept() -> None:
    for wanted in CPU:
        assert hardware.choose_compute_type(wanted, lambda: CPU) == wanted
    assert hardware.choose_compute_type("default", set) == "default"


@pytest.mark.parametrize(
    ("flags", "isa"),
    [("fpu sse2 avx avx2 avx512f", "AVX2"), ("fpu sse2 avx", "AVX"), ("fpu sse2", "GENERIC")],
)
def test_the_reported_code_path_follows_the_librarys_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, isa: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert hardware.instruction_set("cpu", cpuinfo) == isa
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "AVX512")
    assert hardware.instruction_set("cpu", cpuinfo) == "AVX512"


VNNI = ("avx", "avx2", "avx512f", "avx512_vnni")


@pytest.mark.parametrize(
    ("wanted", "vendor", "flags", "forced"),
    [
        ("auto", "AuthenticAMD", VNNI, "AVX512"),
        ("auto", "AuthenticAMD", ("avx", "avx2"), ""),
        ("auto", "GenuineIntel", VNNI, ""),
        ("default", "AuthenticAMD", VNNI, ""),
        ("avx2", "GenuineIntel", VNNI, "AVX2"),
        ("avx512", "AuthenticAMD", ("avx", "avx2"), ""),
        ("generic", "", (), "GENERIC"),
    ],
)
def test_the_code_path_is_chosen_by_vendor_and_never_one_that_would_crash(
    wanted: str, vendor: str, flags: tuple[str, ...], forced: str
) -> None:
    assert hardware.choose_isa(wanted, vendor, flags) == forced


def test_a_code_path_that_the_environment_names_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "vendor_id : AuthenticAMD\nflags : avx2 avx512f avx512_vnni\n\nvendor_id : Other\nflags : x\n"
    )
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setenv(hardware.FORCED_ISA, "AVX")
    hardware.prepare_isa("auto", cpuinfo)
    assert hardware.instruction_set("cpu", cpuinfo) == "AVX"
    monkeypatch.delenv(hardware.FORCED_ISA)
    hardware.prepare_isa("auto", cpuinfo)
    assert hardware.instruction_set("cpu", cpuinfo) == "AVX512"
    monkeypatch.delenv(hardware.FORCED_ISA)
