"""`python -m tests.support.prove [ids]`: break what each case guards, and expect its test to fail.

Each case runs in a process of its own with one function replaced by the naive version that the test names (see
`cases.py`). The processes are forked from one that has collected all tests: imports are most of the time of a short
pytest run. The table says case, seam and verdict. Exit code 0: every case was proved; 1: some test passed although its
function was broken, or never came to run; 2: nothing to prove.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.support import prove_plugin

PYTEST = ("-q", "-p", "no:cacheprovider")
DEFAULT_PATHS = ("tests/unit",)


class Verdict(Enum):
    """What one run with the broken function showed."""

    PROVED = "proved"
    TIMED_OUT = "proved (ran past its limit)"
    STILL_PASSES = "STILL PASSES"
    DID_NOT_RUN = "DID NOT RUN"

    @property
    def good(self) -> bool:
        return self in (Verdict.PROVED, Verdict.TIMED_OUT)


@dataclass(frozen=True)
class Target:
    """One case as collected: its id, the guarded function, and the test's node id."""

    id: str
    breaks: str
    node: str


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    targets = [found for found in collected(options.paths) if not options.ids or found.id in options.ids]
    missing = sorted(set(options.ids) - {found.id for found in targets})
    if missing or not targets:
        print(f"no test carries: {', '.join(missing)}" if missing else "no case found", file=sys.stderr)
        return 2
    verdicts = []
    for target, verdict in proved(targets, options.jobs, options.limit):
        verdicts.append((target, verdict))
        print(f"{len(verdicts):>4}/{len(targets)}  {target.id}: {verdict.value}", file=sys.stderr, flush=True)
    _print_table(verdicts)
    return 0 if all(verdict.good for _, verdict in verdicts) else 1


def collected(paths: list[str]) -> list[Target]:
    """The cases of all tests under the paths, which are imported here. Raises RuntimeError where collection fails."""
    with tempfile.TemporaryDirectory() as folder:
        listing, output = Path(folder) / "cases.json", Path(folder) / "output"
        code = _pytest({prove_plugin.LIST_VARIABLE: str(listing)}, output, "--collect-only", *paths)
        if not listing.exists() or code not in (0, 5):
            raise RuntimeError(f"collection failed:\n{output.read_text()}")
        rows = json.loads(listing.read_text())
    unique = {(row["id"], row["breaks"], row["node"]): Target(**row) for row in rows}
    return list(unique.values())


@dataclass(frozen=True)
class Run:
    """A case that runs: its process, where its output goes, and when it is over its limit (monotonic seconds)."""

    target: Target
    process: BaseProcess
    output: Path
    ends: float

    def verdict(self) -> Verdict:
        """Only a failing test is a proof, never an error of pytest's own."""
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
            return Verdict.TIMED_OUT
        output = self.output.read_text(errors="replace") if self.output.exists() else ""
        if code == 0:
            return Verdict.STILL_PASSES
        if code == pytest.ExitCode.TESTS_FAILED:
            return Verdict.PROVED
        print(f"{self.target.id}: pytest ended with {code}\n{output[-4000:]}", file=sys.stderr)
        return Verdict.DID_NOT_RUN


def proved(targets: list[Target], jobs: int, limit: float) -> Iterator[tuple[Target, Verdict]]:
    """Run each test with its function broken, some at a time; verdicts as they come."""
    if threading.active_count() > 1:
        raise RuntimeError("a module that tests import starts a thread: a fork would copy its locks")
    waiting, running = list(reversed(targets)), list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_started(waiting.pop(), Path(folder) / f"{len(waiting)}.txt", limit))
            soonest = min(run.ends for run in running) - time.monotonic()
            wait([run.process.sentinel for run in running], timeout=max(0.0, soonest))
            over = [
                run for run in running if run.process.exitcode is not None or run.ends <= time.monotonic()
            ]
            running = [run for run in running if run not in over]
            yield from ((run.target, run.verdict()) for run in over)


def _started(target: Target, output: Path, limit: float) -> Run:
    process = multiprocessing.get_context("fork").Process(target=_prove, args=(target, output))
    process.start()
    return Run(target, process, output, time.monotonic() + limit)


class Failures:
    """Whether a test failed: what pytest ends with may speak of its own clean-up instead."""

    seen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen = self.seen or report.failed


def _prove(target: Target, output: Path) -> None:
    variables, failures = {prove_plugin.BREAK_VARIABLE: f"{target.id}|{target.breaks}"}, Failures()
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        code = _pytest(variables, output, "-x", target.node, plugin=failures)
    finally:
        # Not by sys.exit: what a broken function left behind (threads, half-open servers) must not keep the process.
        os._exit(pytest.ExitCode.TESTS_FAILED if failures.seen else code)


def _pytest(variables: dict[str, str], output: Path, *arguments: str, plugin: object = None) -> int:
    # A test that skips itself proves nothing; where CI is set a skip would look like the failure that is wanted.
    changed = patch.dict(os.environ, {"CI": "", **variables})
    plugins = [prove_plugin] if plugin is None else [prove_plugin, plugin]
    with changed, output.open("w") as file, _redirected(file.fileno()):
        return int(pytest.main([*PYTEST, *arguments], plugins=plugins))


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    """Standard output and error of this process and of those that it starts."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in kept:
        os.dup2(target, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)


def _print_table(rows: list[tuple[Target, Verdict]]) -> None:
    width = max(len(target.id) for target, _ in rows)
    seam = max(len(target.breaks) for target, _ in rows)
    print(f"{'case':<{max(width, 4)}}  {'seam':<{seam}}  verdict")
    for target, verdict in sorted(rows, key=lambda row: row[0].id):
        print(f"{target.id:<{max(width, 4)}}  {target.breaks:<{seam}}  {verdict.value}")
    good = sum(verdict.good for _, verdict in rows)
    print(f"{good} of {len(rows)} proved")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.prove", description=__doc__)
    parser.add_argument("ids", nargs="*", help="case ids; all when left out")
    parser.add_argument("--paths", nargs="+", default=list(DEFAULT_PATHS), help="where to look for tests")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (default 2)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one case (default 120)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
