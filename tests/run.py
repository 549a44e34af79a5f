"""Runs the test tiers in order and ends with one summary that a person can read at a glance.

It exists so that `make test` is one command on a fresh machine: each tier first prepares what it needs (built
binaries, images, a cluster) with visible progress, then runs pytest. It refuses to go on quietly: a tier that fails is
named in the summary, the others still run, and the exit code is non-zero.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "reports"
UNSCALED_RUN = ROOT / "docs" / "unscaled-run.json"
"""The last full run without scaled waits (`make test-slow`)."""
WARM_LIMIT_SECONDS = 25 * 60
UNSCALED = os.environ.get("SERVAL_LIVE_TIME_FACTOR") == "1"
SPREAD = ("-n", "8", "--dist", "worksteal") if UNSCALED else ("-n", "2", "--dist", "loadfile")
"""How the integration tests share the cores: unscaled tests hardly compute, they wait, and many can wait at once."""


@dataclass(frozen=True)
class TierResult:
    """What one tier did: seconds of wall time, its exit code, and the counts that pytest wrote."""

    name: str
    seconds: float
    code: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Tier:
    """A tier: what must run first, and the command."""

    name: str
    teaches: str
    steps: Sequence[Sequence[str]]
    always_after: Sequence[Sequence[str]] = ()


def _pytest(name: str, folder: str, *options: str) -> list[str]:
    report = REPORTS / f"{name}.xml"
    return [sys.executable, "-m", "pytest", folder, f"--junit-xml={report}", "-q", *options]


def _devcluster(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "devcluster", *arguments]


TIERS = (
    Tier("lint", "style, types, import contracts, consistent packages", (["scripts/lint"],)),
    Tier(
        "unit",
        "no services",
        (
            _devcluster("build", "fast"),
            [sys.executable, "-m", "tinymodel", "texts"],
            _pytest("unit", "tests/unit", "-n", "2"),
        ),
    ),
    Tier(
        "integration",
        "real etcd, kube-apiserver, S3 server and predictor processes",
        (
            _devcluster("build", "fast"),
            _pytest("integration", "tests/integration", *SPREAD),
        ),
    ),
    Tier(
        "prove",
        "each guarded function replaced by its naive version",
        ([sys.executable, "-m", "tests.support.prove"],),
    ),
    Tier(
        "e2e",
        "the whole story on the real cluster",
        (
            _devcluster("up"),
            ["scripts/images", "--load"],
            _devcluster("exec", "--", *_pytest("e2e", "tests/e2e")),
        ),
        always_after=(_devcluster("down"),),
    ),
    Tier(
        "images",
        "each image as anybody on a read-only root file system, and its size",
        (_pytest("images", "tests/images"),),
    ),
    Tier("cluster", "starting and stopping leaves nothing behind", (_pytest("cluster", "tests/cluster"),)),
)


def _call(command: Sequence[str]) -> int:
    print(f"$ {' '.join(part.replace(str(ROOT) + '/', '') for part in command)}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_tier(tier: Tier, call: Callable[[Sequence[str]], int] = _call) -> TierResult:
    """Run a tier's steps until one fails, then its clean-up, which always runs."""
    print(f"\n==> {tier.name}: {tier.teaches}", flush=True)
    started = time.monotonic()
    code = 0
    try:
        for step in tier.steps:
            code = call(step)
            if code:
                break
    finally:
        for step in tier.always_after:
            code = call(step) or code
    passed, failed, skipped = _counts(REPORTS / f"{tier.name}.xml")
    return TierResult(tier.name, time.monotonic() - started, code, passed, failed, skipped)


def _counts(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 0, 0
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return total - failed - skipped, failed, skipped


def slowest(count: int) -> list[tuple[float, str]]:
    """The slowest tests over all tiers, seconds first."""
    cases = [
        (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
        for report in REPORTS.glob("*.xml")
        for case in ElementTree.parse(report).getroot().iter("testcase")
    ]
    return sorted(cases, reverse=True)[:count]


def _print_summary(results: Sequence[TierResult]) -> None:
    print("\nSlowest tests")
    for seconds, name in slowest(10):
        print(f"  {seconds:7.1f} s  {name}")
    print("\nTier           result   passed  failed  skipped      time")
    for r in results:
        word = "ok" if r.code == 0 else "FAILED"
        print(f"{r.name:<14} {word:<8} {r.passed:>6} {r.failed:>7} {r.skipped:>8}  {r.seconds:>6.0f} s")
    passed, failed, skipped = (
        sum(getattr(r, key) for r in results) for key in ("passed", "failed", "skipped")
    )
    broken = sum(1 for r in results if r.code and not r.failed)
    print(f"\n{passed} passed, {failed + broken} failed, {skipped} skipped", flush=True)


def record(results: Sequence[TierResult], seconds: float, now: datetime) -> None:
    """Write down an unscaled run that succeeded, for the page about tests: when, how long, and what took longest."""
    body = {
        "date": now.strftime("%Y-%m-%d"),
        "seconds": round(seconds),
        "tiers": [
            {"tier": r.name, "seconds": round(r.seconds), "passed": r.passed, "skipped": r.skipped}
            for r in results
        ],
        "slowest": [{"seconds": round(length), "test": name} for length, name in slowest(10)],
    }
    UNSCALED_RUN.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    print(f"written down in {UNSCALED_RUN.relative_to(ROOT)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named tiers, or all; returns the process's exit code."""
    names = [tier.name for tier in TIERS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tiers", nargs="*", choices=[*names, []], help=f"default: all of {', '.join(names)}")
    chosen = parser.parse_args(arguments).tiers or names
    # Tests install and delete; they never touch a cluster that KUBECONFIG happens to name.
    os.environ.setdefault("SERVAL_LIVE_BACKEND", "source")
    REPORTS.mkdir(parents=True, exist_ok=True)
    for old in REPORTS.glob("*.xml"):
        old.unlink()
    # A cold run builds a Kubernetes from source; the limit on time is for runs that find it built.
    warm = _call(_devcluster("status", "--warm", "--quiet")) == 0 if "e2e" in chosen else False
    # A cluster that somebody is using stays up; one that the tests started goes.
    used = "e2e" in chosen and _call(_devcluster("status", "--quiet")) == 0
    started = time.monotonic()
    tiers = [replace(tier, always_after=()) if used else tier for tier in TIERS if tier.name in chosen]
    results = [run_tier(tier) for tier in tiers]
    _print_summary(results)
    seconds = time.monotonic() - started
    if warm and not UNSCALED and seconds > WARM_LIMIT_SECONDS:
        # A slow machine is no broken test; whoever sees this line looks at the slowest tests above.
        print(
            f"TOO SLOW: a warm run took {seconds:.0f} s, more than the {WARM_LIMIT_SECONDS} s that it may take."
        )
    failed = any(r.code for r in results)
    if UNSCALED and not failed:
        record(results, seconds, datetime.now(UTC))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
