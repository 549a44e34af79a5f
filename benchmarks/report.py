"""What a benchmark hands back: figures with their targets, the machine and the commit.

It refuses figures without a unit, and it never rounds a miss into a hit: `met` compares the raw value.
"""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
Comparison = Literal["<=", ">=", "==", "report"]


@dataclass(frozen=True)
class Figure:
    """One measured value: its target (None where it is only reported) and the raw samples behind it."""

    name: str
    value: float
    unit: str
    comparison: Comparison = "report"
    target: float | None = None
    samples: tuple[float, ...] = ()

    @property
    def met(self) -> bool:
        """True if the value reaches its target, or has none."""
        if self.target is None:
            return True
        return {
            "<=": self.value <= self.target,
            ">=": self.value >= self.target,
            "==": self.value == self.target,
            "report": True,
        }[self.comparison]

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest sample; the value itself where there is only one."""
        return (min(self.samples), max(self.samples)) if self.samples else (self.value, self.value)

    def line(self) -> str:
        """One line for a person."""
        low, high = self.spread
        wanted = "" if self.target is None else f"  target {self.comparison} {self.target:g}"
        verdict = "" if self.target is None else ("  ok" if self.met else "  MISSED")
        spread = f"  ({low:.3g} to {high:.3g}, n={len(self.samples)})" if len(self.samples) > 1 else ""
        return f"  {self.name:<46} {self.value:>10.4g} {self.unit}{spread}{wanted}{verdict}"


def median_figure(
    name: str,
    samples: Sequence[float],
    unit: str,
    comparison: Comparison = "report",
    target: float | None = None,
) -> Figure:
    """A figure whose value is the median of its samples."""
    return Figure(name, statistics.median(samples), unit, comparison, target, tuple(samples))


@dataclass(frozen=True)
class Report:
    """All figures of one benchmark, and in one sentence how they were measured."""

    name: str
    method: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def met(self) -> bool:
        """True if no figure misses its target."""
        return all(figure.met for figure in self.figures)

    def document(self) -> dict[str, Any]:
        """The JSON that is kept under `benchmarks/results/`."""
        return {
            "name": self.name,
            "method": self.method,
            "met": self.met,
            "figures": [
                {**asdict(f), "samples": list(f.samples), "spread": list(f.spread), "met": f.met}
                for f in self.figures
            ],
            "notes": list(self.notes),
            "machine": machine(),
            "commit": commit(),
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def write(self) -> dict[str, Any]:
        """Keep the document and return it."""
        document = self.document()
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.json").write_text(json.dumps(document, indent=1) + "\n")
        return document


def machine() -> dict[str, Any]:
    """Processor, cores, memory, kernel: what a figure depends on."""
    cpu = next(
        (
            row.split(":", 1)[1].strip()
            for row in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in row
        ),
        platform.processor(),
    )
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": cpu,
        "cores": cores,
        "memoryGiB": round(gib, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "loadBefore": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """The commit measured, with `+` where the tree has changes."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
