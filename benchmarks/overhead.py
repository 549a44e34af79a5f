"""What a call costs beyond the engine: one client over loopback, paired with `translate_batch` in a bare process. The
client is the standard library's with a body that is ready, so that what is measured is the server.

Neither side reports its own time to the other: the bare process times its call, the client times its own. Both use the
same sentence in turn, with the same threads, so that a moment when the machine is slow hits both.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

from benchmarks.models import TINY, converted
from benchmarks.report import ROOT, Figure, Report, median_figure
from benchmarks.serving import priority, sentences, server

PAIRS = {"tiny": 300, "widened": 12}
THREADS = (2, 1)
"""What the server chooses on two cores."""
WAITING = {"OMP_WAIT_POLICY": "passive"}
"""Of both sides: threads that spin after a call would take the cores from the other side, which computes next."""
GREEDY = {"beam_size": 1, "split_sentences": False, "timeout_ms": 300_000}


@contextmanager
def _bare(folder: Path, count: int) -> Iterator["subprocess.Popen[str]"]:
    command = [
        *priority(),
        sys.executable,
        "-m",
        "benchmarks.bare",
        str(folder),
        *map(str, THREADS),
        str(count),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        _line(process)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _ask(process: "subprocess.Popen[str]", number: int) -> float:
    assert process.stdin is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return float(_line(process))


def _pairs(folder: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds of the engine alone, and of the call, sentence by sentence."""
    chosen = sentences(count)
    flags = ("--inter-threads", str(THREADS[0]), "--intra-threads", str(THREADS[1]))
    engine: list[float] = []
    call: list[float] = []
    with server(folder, *flags) as ours, _bare(folder, count) as bare:
        url = urlsplit(ours.infer)
        client = HTTPConnection(str(url.hostname), url.port, timeout=300)

        def over_http(number: int) -> float:
            body = json.dumps(ours.body(chosen[number], **GREEDY))
            started = time.monotonic()
            client.request("POST", url.path, body, {"content-type": "application/json"})
            answer = client.getresponse()
            answer.read()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"the predictor answered {answer.status}")
            return time.monotonic() - started

        for number in range(min(5, count)):
            _ask(bare, number)
            over_http(number)
        for number in range(count):
            first = random.Random(number).random() < 0.5
            if first:
                engine.append(_ask(bare, number))
            call.append(over_http(number))
            if not first:
                engine.append(_ask(bare, number))
    return engine, call


def _tiny(scratch: Path) -> Path:
    target = scratch / "tiny"
    command = [
        sys.executable,
        "-m",
        "nllb_predictor",
        "convert",
        str(TINY),
        str(target),
        "--quantization",
        "int8",
    ]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return target


def run() -> Report:
    """The tiny model, where a millisecond shows, and the 600M shape."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch, patch.dict(os.environ, WAITING):
        folders = {"tiny": _tiny(Path(scratch)), "widened": converted("int8")}
        for name, folder in folders.items():
            engine, call = _pairs(folder, PAIRS[name])
            difference = 1000 * (statistics.median(call) - statistics.median(engine))
            paired = [1000 * (c - e) for e, c in zip(engine, call, strict=True)]
            target = 2.0 if name == "tiny" else None
            figures += [
                Figure(
                    f"{name} model: difference of medians",
                    difference,
                    "ms",
                    "<=" if target else "report",
                    target,
                ),
                median_figure(f"{name} model: median of the paired differences", paired, "ms"),
                median_figure(f"{name} model: engine alone", [1000 * each for each in engine], "ms"),
            ]
    method = (
        "One client, one sentence per call over loopback HTTP (JSON), greedy, paired with translate_batch in a bare"
        f" process of the same threads, OMP_WAIT_POLICY=passive on both sides; {PAIRS['tiny']} pairs on the tiny model,"
        f" {PAIRS['widened']} on the widened one."
    )
    return Report("overhead", method, tuple(figures))
