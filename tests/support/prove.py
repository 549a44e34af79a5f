"""`python -m tests.support.prove [ids]`: break what each case guards, and expect its test to fail.

Each case runs in a pytest process of its own with one function replaced by the naive version that the test names
(see `cases.py`). The table says case, seam and verdict. Exit code 0: every case was proved; 1: some test passed
although its function was broken, or never came to run; 2: nothing to prove.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.support import prove_plugin

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", prove_plugin.__name__, "-p", "no:cacheprovider")
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
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = []
        for target, verdict in zip(
            targets, pool.map(lambda each: proved(each, options.limit), targets), strict=True
        ):
            verdicts.append(verdict)
            print(
                f"{len(verdicts):>4}/{len(targets)}  {target.id}: {verdict.value}",
                file=sys.stderr,
                flush=True,
            )
    _print_table(list(zip(targets, verdicts, strict=True)))
    return 0 if all(verdict.good for verdict in verdicts) else 1


def collected(paths: list[str]) -> list[Target]:
    """The cases of all tests under the paths. Raises RuntimeError with pytest's output if collection fails."""
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "cases.json"
        run = _pytest({prove_plugin.LIST_VARIABLE: str(listing)}, "--collect-only", *paths)
        if not listing.exists() or run.returncode not in (0, 5):
            raise RuntimeError(f"collection failed:\n{run.stdout}{run.stderr}")
        rows = json.loads(listing.read_text())
    unique = {(row["id"], row["breaks"], row["node"]): Target(**row) for row in rows}
    return list(unique.values())


def proved(target: Target, limit: float) -> Verdict:
    """Run the test with its function broken; only a failing test is a proof, never an error of pytest's own."""
    try:
        run = _pytest(
            {prove_plugin.BREAK_VARIABLE: f"{target.id}|{target.breaks}"}, "-x", target.node, limit=limit
        )
    except subprocess.TimeoutExpired:
        return Verdict.TIMED_OUT
    if run.returncode == 0:
        return Verdict.STILL_PASSES
    if run.returncode == 1 and "INTERNALERROR" not in run.stdout:
        return Verdict.PROVED
    print(
        f"{target.id}: pytest ended with {run.returncode}\n{run.stdout[-4000:]}{run.stderr}", file=sys.stderr
    )
    return Verdict.DID_NOT_RUN


def _pytest(
    variables: dict[str, str], *arguments: str, limit: float | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTEST, *arguments],
        # A test that skips itself proves nothing; where CI is set a skip would look like the failure that is wanted.
        env={**os.environ, "CI": "", **variables},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


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
