"""What the machine offers: cores of the cgroup, devices, compute types, instruction set.

Choices are pure functions of what was found, so that they can be tested without the hardware. A compute type that
the device lacks is replaced by the nearest one it has, and never silently: the effective one is reported.
"""

import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nllb_predictor.errors import DeviceMissing

log = logging.getLogger(__name__)

CGROUP = Path("/sys/fs/cgroup")

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

    One batch at a time over all cores: a waiting segment then joins the next batch instead of a second, slower one.
    On a GPU the CPU threads hardly matter.
    """
    inter = inter or 1
    if intra:
        return Threads(inter, intra)
    return Threads(inter, 1 if device == "cuda" else max(1, available // inter))


def choose_device(wanted: str, gpus: int) -> str:
    """`cpu` or `cuda`. Raises DeviceMissing where a GPU is demanded and there is none."""
    if wanted == "cuda" and gpus == 0:
        raise DeviceMissing(
            "No CUDA device was found.", hint="Is the GPU requested in the pod, and is this the GPU image?"
        )
    if wanted == "auto":
        return "cuda" if gpus else "cpu"
    return wanted


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


def instruction_set(device: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU code path that CTranslate2 takes, which it does not tell: its own rule, followed here. AVX-512 is used
    only where CT2_FORCE_CPU_ISA asks for it."""
    if device == "cuda":
        return "cuda"
    forced = os.environ.get("CT2_FORCE_CPU_ISA", "")
    if forced:
        return forced
    if platform.machine() in ("aarch64", "arm64"):
        return "NEON"
    try:
        flags = next(line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")).split()
    except (OSError, StopIteration):
        return "unknown"
    return "AVX2" if "avx2" in flags else "AVX" if "avx" in flags else "GENERIC"
