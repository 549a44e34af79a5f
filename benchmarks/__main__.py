"""`python -m benchmarks [NAME …]`: run benchmarks, keep their results, say whether targets were met."""

import argparse
import importlib
import json
import sys
import traceback
from collections.abc import Sequence

from benchmarks.document import write_document
from benchmarks.report import Report

BENCHMARKS = {
    "conversion": "time and memory of converting the 600M shape, beside CTranslate2's own converter",
    "start": "seconds until ready beyond a bare script that opens the same folder",
    "vocabulary": "speed, size and equal output with the vocabulary trimmed to a pair's texts",
    "throughput": "sentences per second with many callers, beside CTranslate2 itself and simple ways to serve it",
    "roofline": "time of a batch beside what the machine's bandwidth and peak allow",
    "overhead": "what a call costs beyond the engine's own time",
    "overload": "four times more calls than the engine can answer, for a minute",
    "memory": "resident memory after 100,000 calls against after 1,000",
    "keystrokes": "keys that word graphs save a person who types, with sil-machine's translator",
    "graph-cost": "time of a word graph beside one translation with beam 4",
    "images": "size of each image's layers above its base",
    "operator-idle": "API writes and memory of an operator with 50 idle engines, for ten minutes",
    "idle": "an operator with 1,000 engines at rest: restart, memory, API writes in ten minutes",
    "scale": "one operator with 10, 100 and 1,000 engines: time, calls, memory, restart, growth",
    "chaos": "10,000 ends of builds with every loss of events and faults of Serval, API and S3",
    "failover": "the leader is killed at work: time until its successor writes, and nothing twice",
    "rollout": "build finished to first translation, and failed calls during rollouts, on the real cluster",
    "rollouts": "a hundred rollouts under constant calls on the real cluster",
    "swap": "revisions that take turns on one GPU, under callers who wait, on the real cluster",
}


def run(name: str) -> Report:
    """Run one benchmark by name."""
    module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
    report = module.run()
    if not isinstance(report, Report):
        raise TypeError(f"benchmarks.{name} returned {type(report).__name__}, not a Report")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all; exit code 1 where a target was missed."""
    listing = "\n".join(f"  {name:<14} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n\n{listing}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="default: all")
    names = parser.parse_args(arguments).names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    met = True
    for name in names:
        print(f"==> {name}: {BENCHMARKS[name]}", flush=True)
        try:
            report = run(name)
        except Exception:
            # One that breaks says so and lets the others run; its last result is kept, and the exit code tells.
            traceback.print_exc()
            print(json.dumps({"name": name, "met": False, "error": "see the traceback above"}), flush=True)
            met = False
            continue
        document = report.write()
        print(
            "\n".join(
                [*(figure.line() for figure in report.figures), *(f"  note: {note}" for note in report.notes)]
            )
        )
        write_document()
        print(json.dumps(document), flush=True)
        met = met and report.met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
