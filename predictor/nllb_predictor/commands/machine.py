"""What the machine offers to a serving process: device, memory, ports, folders. Looks only; nothing stays changed."""

import os
import shutil
import socket
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nllb_predictor.engine import hardware
from nllb_predictor.errors import DeviceMissing
from nllb_predictor.settings import ServeSettings

BESIDE_WEIGHTS = 450_000_000
"""Bytes of a process beside the weights: interpreter, libraries, a 256k-token tokenizer, one batch's states."""


class Grade(Enum):
    """Whether a fact stands in the way."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


@dataclass(frozen=True)
class Fact:
    """One thing about the machine."""

    name: str
    grade: Grade
    message: str
    remedy: str = ""


def devices(settings: ServeSettings) -> list[Fact]:
    """Device, instruction set, cores and compute type."""
    import ctranslate2

    gpus = ctranslate2.get_cuda_device_count()
    try:
        device = hardware.choose_device(settings.device, gpus)
        if device == "cuda":
            hardware.choose_gpus(settings.gpus, gpus)
    except DeviceMissing as error:
        return [Fact("device", Grade.BAD, error.message, error.hint)]
    supported = ctranslate2.get_supported_compute_types(device)
    kind = hardware.choose_compute_type(settings.compute_type, lambda: set(supported))
    facts = [
        Fact(
            "device",
            Grade.GOOD,
            f"{device} ({hardware.instruction_set(device)}), {hardware.cores()} cores, {gpus} GPUs",
        )
    ]
    if kind != settings.compute_type:
        message = f"{settings.compute_type} is not possible here; {kind} would be used"
        facts.append(Fact("compute", Grade.DOUBTFUL, message, f"Possible: {', '.join(sorted(supported))}."))
    return facts


def memory(weights: int, cgroup: Path = hardware.CGROUP) -> list[Fact]:
    """Whether a model of this size fits into the memory that the process may use."""
    limit = _limit(cgroup)
    needed = weights + BESIDE_WEIGHTS
    message = f"about {needed / 1e6:.0f} MB needed, {limit / 1e6:.0f} MB allowed"
    if needed > limit:
        return [Fact("memory", Grade.BAD, message, "Raise the container's memory limit.")]
    grade = Grade.DOUBTFUL if needed > 0.9 * limit else Grade.GOOD
    return [Fact("memory", grade, message, "" if grade is Grade.GOOD else "Large batches may not fit.")]


def _limit(cgroup: Path) -> int:
    """Bytes: the cgroup's limit, else the machine's memory."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return min(whole, int((cgroup / name).read_text()))
        except (OSError, ValueError):
            continue
    return whole


def ports(settings: ServeSettings) -> list[Fact]:
    """Whether both ports can be listened on; port 0 always can."""
    facts = []
    for name, port in (("rest port", settings.rest_port), ("grpc port", settings.grpc_port)):
        try:
            with socket.create_server((settings.host, port)):
                facts.append(Fact(name, Grade.GOOD, f"{settings.host}:{port} is free"))
        except (OSError, OverflowError) as error:
            message = f"{settings.host}:{port}: {getattr(error, 'strerror', None) or error}"
            facts.append(Fact(name, Grade.BAD, message, f"Choose another with --{name.replace(' ', '-')}."))
    return facts


def folders(settings: ServeSettings) -> list[Fact]:
    """Whether the cache can be written, and has room for a model."""
    cache = Path(settings.cache_dir)
    existing = next(path for path in (cache, *cache.absolute().parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        message = f"{cache} cannot be written ({error.strerror})"
        return [Fact("cache", Grade.BAD, message, "Mount an emptyDir there, or set --cache-dir.")]
    grade = Grade.GOOD if free > 3e9 else Grade.DOUBTFUL
    remedy = "" if grade is Grade.GOOD else "A 600M model takes 0.7 GB, and twice that while it is converted."
    return [Fact("cache", grade, f"{cache} can be written, {free / 1e9:.1f} GB free", remedy)]
