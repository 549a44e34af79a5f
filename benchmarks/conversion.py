"""Conversion of the 600M shape: time, memory, and CTranslate2's own converter beside it."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path

from benchmarks.limited import LimitedRun, run_limited
from benchmarks.models import cache, warm, weight_bytes, widened
from benchmarks.report import Figure, Report, median_figure

PAIRS = 3
LIMITS = {"int8": 0.6, "float16": 0.6, "float32": 1.1}
OTHER = """
import sys
from ctranslate2.converters import TransformersConverter
TransformersConverter(sys.argv[1]).convert(sys.argv[2], quantization="int8", force=True)
"""


def _ours(source: Path, target: Path, quantization: str = "int8", limit: int | None = None) -> LimitedRun:
    shutil.rmtree(target, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "nllb_predictor",
        "convert",
        str(source),
        str(target),
        "--quantization",
        quantization,
    ]
    result = run_limited(command, limit)
    if result.code:
        print(result.output[-3000:])
    return result


def _theirs(source: Path, target: Path) -> LimitedRun:
    from tinymodel.environment import training_python

    result = run_limited([str(training_python()), "-c", OTHER, str(source), str(target)])
    if result.code:
        raise RuntimeError(f"CTranslate2's converter failed:\n{result.output[-3000:]}")
    return result


def _archive(source: Path) -> Path:
    """The checkpoint as Serval stores it; gzip level 1, since only the time to read it counts here."""
    path = cache() / f"{source.name}.tar.gz"
    if not path.exists():
        print("  packing the checkpoint …", flush=True)
        partial = path.with_suffix(".partial")
        with tarfile.open(partial, "w:gz", compresslevel=1) as archive:
            for member in sorted(source.iterdir()):
                archive.add(member, member.name)
        partial.rename(path)
    return path


def _gunzip_seconds(path: Path) -> float:
    """Inflating alone, in blocks that stay in the processor's cache: the quickest that zlib does it."""
    started = time.monotonic()
    inflate = zlib.decompressobj(31)
    with path.open("rb") as file:
        while rest := file.read(1 << 14):
            while rest:
                inflate.decompress(rest, 1 << 16)
                rest = inflate.unconsumed_tail
    return time.monotonic() - started


def run() -> Report:
    """Pairs of our converter and CTranslate2's, then one run per memory limit, then the archive."""
    source = widened()
    size = weight_bytes(source)
    warm(source)
    with tempfile.TemporaryDirectory(dir=cache()) as scratch:
        out = Path(scratch) / "out"
        ours, theirs = [], []
        for _ in range(PAIRS):
            ours.append(_ours(source, out))
            theirs.append(_theirs(source, out))
        limited = {q: _ours(source, out, q, int(size * share)) for q, share in LIMITS.items()}
        archive = _archive(source)
        archives = [(_gunzip_seconds(archive), _ours(archive, out)) for _ in range(PAIRS)]
    figures = [
        median_figure("folder to int8, self-test included", [r.seconds for r in ours], "s", "<=", 10),
        median_figure("peak anonymous memory", [r.peak_anonymous / size for r in ours], "of the checkpoint"),
        median_figure(
            ".tar.gz to int8 minus its gunzip time",
            [r.seconds - alone for alone, r in archives],
            "s",
            "<=",
            10,
        ),
        median_figure("gunzip alone", [alone for alone, _ in archives], "s"),
        *(
            Figure(f"{q} succeeds in a memory cgroup of {LIMITS[q]} x", float(r.code == 0), "", "==", 1)
            for q, r in limited.items()
        ),
        median_figure(
            "CTranslate2's converter: time",
            [b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True)],
            "x ours",
        ),
        median_figure(
            "CTranslate2's converter: peak",
            [b.peak_anonymous / a.peak_anonymous for a, b in zip(ours, theirs, strict=True)],
            "x ours",
        ),
    ]
    if any(r.code for r in [*ours, *(r for _, r in archives)]):
        raise RuntimeError("our own conversion failed; see above")
    method = (
        f"Widened trained model, float32, {size / 2**20:.0f} MiB, page cache warm, {PAIRS} interleaved pairs."
    )
    return Report("conversion", method, tuple(figures))


if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "benchmarks", "conversion"], check=False)
