"""How much later than a bare script the predictor is ready.

Both sides run as their image does: on a root file system that is mounted read-only (in a mount namespace of their
own), with byte code present, OpenMP threads that sleep while they wait, and all cores. The bare script does what no
server can do without: import the two libraries, open the folder with both, translate one sentence with the server's
default search.
"""

import compileall
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.models import converted, warm
from benchmarks.report import ROOT, Figure, Report, median_figure
from nllb_predictor.settings import ServeSettings

PAIRS = 9
POLL_SECONDS = 0.025
"""Asking takes time from the process that is asked; the figure is late by half of this on average."""

READ_ONLY = 'mount -o remount,ro,bind / && mount -t tmpfs tmpfs "$0" && exec "$@"'
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
BARE = """
import sys, ctranslate2, tokenizers
folder, threads, beams = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
translator = ctranslate2.Translator(folder, device="cpu", inter_threads=1, intra_threads=threads)
encoded = tokenizer.encode_batch(["In the beginning God created the heaven and the earth."], add_special_tokens=False)
tokens = ["eng_Latn", *encoded[0].tokens, "</s>"]
translator.translate_batch([tokens], target_prefix=[["spa_Latn"]], beam_size=beams)
"""


def _read_only(scratch: str, *command: str) -> list[str]:
    """The command in a mount namespace whose root cannot be written; `scratch` is memory."""
    return ["unshare", "--mount", "sh", "-c", READ_ONLY, scratch, sys.executable, *command]


def _bare(folder: Path) -> float:
    cores, beams = len(os.sched_getaffinity(0)), ServeSettings.beam_size
    with tempfile.TemporaryDirectory() as scratch:
        command = _read_only(scratch, "-c", BARE, str(folder), str(cores), str(beams))
        started = time.monotonic()
        subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT})
        return time.monotonic() - started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class _Start:
    """Seconds from the process's start until it answered ready, and of its own phases."""

    seconds: float
    phases: dict[str, float]


def _ready(folder: Path) -> _Start:
    rest, grpc = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as log:
        settings = {
            "SERVAL_LIVE_MODEL_URI": str(folder),
            "SERVAL_LIVE_MODEL_NAME": "bench",
            "SERVAL_LIVE_REST_PORT": str(rest),
            "SERVAL_LIVE_GRPC_PORT": str(grpc),
            "SERVAL_LIVE_CACHE_DIR": scratch,
            "SERVAL_LIVE_TERMINATION_LOG": f"{scratch}/termination-log",
        }
        command = _read_only(scratch, "-m", "nllb_predictor", "serve")
        started = time.monotonic()
        server = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **ENVIRONMENT, **settings}, stdout=log, stderr=log
        )
        try:
            while time.monotonic() - started < 120 and server.poll() is None:
                if _answers(f"http://127.0.0.1:{rest}/v2/health/ready"):
                    seconds = time.monotonic() - started
                    told = httpx.get(f"http://127.0.0.1:{rest}/v2/models/bench", timeout=5).json()
                    return _Start(seconds, json.loads(told["properties"]["phases"]))
                time.sleep(POLL_SECONDS)
            log.seek(0)
            raise RuntimeError(f"the predictor did not become ready:\n{log.read()[-3000:]}")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def run() -> Report:
    """Interleaved pairs of the bare script and the predictor on the widened int8 model."""
    folder = converted("int8")
    warm(folder)
    for package in ("predictor", "contract"):
        compileall.compile_dir(ROOT / package, quiet=1)
    _bare(folder)
    _ready(folder)
    pairs = [(_bare(folder), _ready(folder)) for _ in range(PAIRS)]
    figures = (
        median_figure(
            "ready minus bare script", [start.seconds - bare for bare, start in pairs], "s", "<=", 1.0
        ),
        median_figure("bare script: open both, translate one sentence", [bare for bare, _ in pairs], "s"),
        median_figure("predictor: process start to ready", [start.seconds for _, start in pairs], "s"),
        *_phases([start for _, start in pairs]),
    )
    method = (
        "Widened trained model, int8, page cache warm, byte code present, root mounted read-only in a mount namespace"
        f" of each process, OMP_WAIT_POLICY=passive on both sides, the server's default search, {PAIRS} interleaved"
        " pairs."
    )
    note = "phases overlap: the model is read and hashed while Python imports the server"
    return Report("start", method, figures, (note,))


def _phases(starts: list[_Start]) -> list[Figure]:
    names = {"python": "until both ports are open", "load": "open and check the model", "warm": "probes"}
    return [
        Figure(f"phase {name}: {what}", statistics.median(found), "s", samples=tuple(found))
        for name, what in names.items()
        for found in [[start.phases[name] for start in starts]]
    ]
