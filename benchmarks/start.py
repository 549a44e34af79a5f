"""How much later than a bare script the predictor is ready."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.models import converted, warm
from benchmarks.report import ROOT, Report, median_figure

PAIRS = 7
BARE = """
import sys, ctranslate2, tokenizers
folder = sys.argv[1]
tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
translator = ctranslate2.Translator(folder, device="cpu", inter_threads=1, intra_threads=int(sys.argv[2]))
encoded = tokenizer.encode_batch(["In the beginning God created the heaven and the earth."], add_special_tokens=False)
tokens = ["eng_Latn", *encoded[0].tokens, "</s>"]
translator.translate_batch([tokens], target_prefix=[["spa_Latn"]], beam_size=1)
"""


def _bare(folder: Path) -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", BARE, str(folder), str(len(os.sched_getaffinity(0)))], check=True)
    return time.monotonic() - started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(folder: Path) -> float:
    rest, grpc = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as scratch:
        settings = {
            "SERVAL_LIVE_MODEL_URI": str(folder),
            "SERVAL_LIVE_MODEL_NAME": "bench",
            "SERVAL_LIVE_REST_PORT": str(rest),
            "SERVAL_LIVE_GRPC_PORT": str(grpc),
            "SERVAL_LIVE_CACHE_DIR": scratch,
            "SERVAL_LIVE_TERMINATION_LOG": f"{scratch}/termination-log",
        }
        started = time.monotonic()
        with (Path(scratch) / "log").open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "nllb_predictor", "serve"],
                cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            while time.monotonic() - started < 120 and server.poll() is None:
                try:
                    if httpx.get(f"http://127.0.0.1:{rest}/v2/health/ready", timeout=5).status_code == 200:
                        return time.monotonic() - started
                except httpx.TransportError:
                    pass
                time.sleep(0.005)
            raise RuntimeError(
                f"the predictor did not become ready:\n{(Path(scratch) / 'log').read_text()[-3000:]}"
            )
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def run() -> Report:
    """Interleaved pairs of the bare script and the predictor on the widened int8 model."""
    folder = converted("int8")
    warm(folder)
    _bare(folder)
    pairs = [(_bare(folder), _ready(folder)) for _ in range(PAIRS)]
    figures = (
        median_figure("ready minus bare script", [ready - bare for bare, ready in pairs], "s", "<=", 1.0),
        median_figure("bare script: open both, translate one sentence", [bare for bare, _ in pairs], "s"),
        median_figure("predictor: process start to ready", [ready for _, ready in pairs], "s"),
    )
    method = f"Widened trained model, int8, page cache warm, byte code present, {PAIRS} interleaved pairs."
    return Report("start", method, figures)
