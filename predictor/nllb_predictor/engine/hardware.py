"""What the machine offers: cores of the cgroup, devices, compute types, instruction set.

Choices are pure functions of what was found, so that they can be tested without the hardware. A compute type that
the device lacks is replaced by the nearest one it has, and never silently: the effective one is reported.
"""

import logging
import os
import platform
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from nllb_predictor.errors import DeviceMissing

log = logging.getLogger(__name__)

CGROUP = Path("/sys/fs/cgroup")
CPUINFO = Path("/proc/cpuinfo")

NEAREST = {
    "int8_float16": ("int8_float16", "int8_bfloat16", "int8_float32", "int8", "float32"),
    "int8_bfloat16": ("int8_bfloat16", "int8_float16", "int8_float32", "int8", "float32"),
    "int8_float32": ("int8_float32", "int8", "float32"),
    "int8": ("int8", "int8_float32", "float32"),
    "int16": ("int16", "float32"),
    "float16": ("float16", "bfloat16", "float32"),
    "bfloat16": ("bfloat16", "float16", "float32"),
    "float32": ("float32",),
    "auto": ("auto",),
    "default": ("default",),
}
"""For each compute type what may stand in for it, best first."""


@dataclass(frozen=True)
class Threads:
    """`inter` batches at the same time, each with `intra` threads."""

    inter: int
    intra: int


def cores(cgroup: Path = CGROUP) -> int:
    """Whole cores that this process may use: its CPU affinity, lowered by the cgroup's quota; at least 1."""
    available = len(os.sched_getaffinity(0))
    quota = _quota(cgroup)
    return max(1, min(available, int(quota))) if quota else max(1, available)


def _quota(cgroup: Path) -> float | None:
    """Cores of the quota, cgroup v2 or v1; None where there is none."""
    try:
        if (cgroup / "cpu.max").is_file():
            limit, period = (cgroup / "cpu.max").read_text().split()
            return None if limit == "max" else max(1.0, int(limit) / int(period))
        limit = (cgroup / "cpu/cpu.cfs_quota_us").read_text().strip()
        period = (cgroup / "cpu/cpu.cfs_period_us").read_text().strip()
        return None if int(limit) <= 0 else max(1.0, int(limit) / int(period))
    except (OSError, ValueError):
        return None


def threads(inter: int, intra: int, device: str, available: int) -> Threads:
    """The thread numbers to use; 0 stands for "choose".

    On a CPU two batches at a time that divide the cores. A step of decoding, which is what takes the time, hardly gets
    quicker with a second thread (32 rows of the 600M shape: 218 ms with one, 194 ms with two), while two batches with
    a thread each do not hinder each other (245 ms, both), and two that share two threads do (281 ms). On a GPU one
    batch at a time, each GPU for itself, and CPU threads hardly matter.
    """
    if device == "cuda":
        return Threads(inter or 1, intra or 1)
    inter = inter or min(2, available)
    return Threads(inter, intra or max(1, available // inter))


def batch_segments(wanted: int, device: str) -> int:
    """The most segments of a batch; 0 stands for "choose". Widened 600M model on one core, greedy: a step takes 125 ms
    with 16 rows, 198 with 32, 378 with 64; on a GPU it hardly depends on them."""
    return wanted or (64 if device == "cuda" else 32)


FORCED_ISA = "CT2_FORCE_CPU_ISA"
"""The variable by which CTranslate2 is told its code path; read once, when the library first computes."""

ISA_FLAGS = {"AVX512": "avx512f", "AVX2": "avx2", "AVX": "avx", "GENERIC": ""}


def choose_isa(wanted: str, vendor: str, flags: Collection[str]) -> str:
    """The code path to force, or empty for the library's own choice.

    CTranslate2's wheel takes AVX2 on AMD even where AVX-512 with VNNI is there, which small batches compute 5 to 11 %
    quicker. On Intel it chooses well by itself. A path that the processor lacks is never forced: it would crash.
    """
    if wanted == "auto":
        return "AVX512" if vendor == "AuthenticAMD" and "avx512_vnni" in flags else ""
    if wanted == "default":
        return ""
    name = wanted.upper()
    if ISA_FLAGS[name] and ISA_FLAGS[name] not in flags:
        log.warning("instruction set is not available here: wanted=%s", wanted)
        return ""
    return name


def prepare_isa(wanted: str, cpuinfo: Path = CPUINFO) -> None:
    """Tell CTranslate2 its code path, before it is loaded; what the environment says already stands. Intel's library
    (CT2_USE_MKL) is left alone: on AMD it is many times slower."""
    if FORCED_ISA in os.environ or platform.machine() not in ("x86_64", "AMD64"):
        return
    if "ctranslate2" in sys.modules:
        log.debug("CTranslate2 is loaded already and keeps its code path")
        return
    vendor, flags = _processor(cpuinfo)
    name = choose_isa(wanted, vendor, flags)
    if name:
        os.environ[FORCED_ISA] = name


def _processor(cpuinfo: Path) -> tuple[str, set[str]]:
    """Vendor and flags of the first processor; empty where /proc does not tell."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return "", set()
    facts = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))
    }
    return facts.get("vendor_id", ""), set(facts.get("flags", "").split())


def choose_device(wanted: str, gpus: int) -> str:
    """`cpu` or `cuda`. Raises DeviceMissing where a GPU is demanded and there is none."""
    if wanted == "cuda" and gpus == 0:
        raise DeviceMissing(
            "No CUDA device was found.", hint="Is the GPU requested in the pod, and is this the GPU image?"
        )
    if wanted == "auto":
        return "cuda" if gpus else "cpu"
    return wanted


def choose_gpus(wanted: tuple[int, ...], gpus: int) -> list[int]:
    """Numbers of the GPUs that each get a copy of the model: the wanted ones, or all that this process may see. Raises
    DeviceMissing for one that is not there."""
    missing = [number for number in wanted if number >= gpus]
    if missing:
        raise DeviceMissing(
            f"There is no GPU {missing[0]}; this process sees {gpus}, counted from 0.",
            hint="How many does the pod ask for?",
        )
    return list(wanted) or list(range(gpus))


def choose_compute_type(wanted: str, supported: Callable[[], set[str]]) -> str:
    """The compute type to ask CTranslate2 for: the wanted one, or the nearest that the device has."""
    if wanted in ("default", "auto"):
        return wanted
    offered = supported()
    for candidate in NEAREST.get(wanted, (wanted, "float32")):
        if candidate in offered:
            if candidate != wanted:
                log.warning("compute type is not available here: wanted=%s used=%s", wanted, candidate)
            return candidate
    return "float32"


def instruction_set(device: str, cpuinfo: Path = CPUINFO) -> str:
    """The CPU code path that CTranslate2 takes, which it does not tell: its own rule, followed here. AVX-512 is used
    only where it is forced."""
    if device == "cuda":
        return "cuda"
    forced = os.environ.get(FORCED_ISA, "")
    if forced:
        return forced
    if platform.machine() in ("aarch64", "arm64"):
        return "NEON"
    _, flags = _processor(cpuinfo)
    if not flags:
        return "unknown"
    return "AVX2" if "avx2" in flags else "AVX" if "avx" in flags else "GENERIC"
