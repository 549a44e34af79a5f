"""Records again what KServe's and Knative's real controllers do: `python -m tests.support.calibration`.

It starts the cluster, goes inside its network by itself, runs the scenario (about eight minutes) and keeps what it saw
under `tests/data/calibration`. Nothing of it stays in the cluster. To be run after a change in `versions.toml`, beside
the test that holds the simulator to the recording.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.support.calibration.real import record
from tests.support.calibration.recording import Step

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "tests" / "data" / "calibration" / "sequences.json"
INSIDE = "SERVAL_LIVE_CALIBRATION_INSIDE"


def main() -> int:
    """Record, and keep; exit code 1 where a step was never over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=KEPT, help="where to keep it (default: %(default)s)")
    options = parser.parse_args()
    if not os.environ.get(INSIDE):
        return _go_inside(options.output)
    image = (ROOT / "build" / "images" / "predictor").read_text().strip()
    recording = asyncio.run(record(image, _tell))
    recording.write(options.output)
    print(f"kept {len(recording.steps)} steps in {options.output}")
    return 0


def _tell(step: Step) -> None:
    print(f"== {step.name}: {step.answers}", flush=True)
    for change in step.changes:
        print(f"   {change.observable:<40} {change.value}", flush=True)


def _go_inside(output: Path) -> int:
    subprocess.run([sys.executable, "-m", "devcluster", "up"], cwd=ROOT, check=True)
    subprocess.run(["scripts/images", "--load"], cwd=ROOT, check=True)
    enter = [
        sys.executable,
        "-m",
        "devcluster",
        "exec",
        "--",
        sys.executable,
        "-m",
        "tests.support.calibration",
    ]
    command = [*enter, "--output", str(output.resolve())]
    return subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, INSIDE: "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
