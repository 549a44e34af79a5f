"""Sentences per second with many callers, beside CTranslate2 itself and beside the simple ways to serve it.

The oracle is the best of CTranslate2's own settings, found in the same run: the whole set at hand, sorted by length,
no server. Callers send one sentence per call in a closed loop; the rate is taken in the steady state.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.models import converted, warm, widened
from benchmarks.report import ROOT, Figure, Report
from benchmarks.serving import NAME, Loop, Sentence, closed_loop, priority, sentences, server

CLIENTS = 64
COUNT = 10 * CLIENTS
SEARCH = 64
"""Sentences of the search for the oracle's settings; the best one is then measured on half of all."""
THREADS = ((1, 2), (2, 1), (2, 2))
BATCHES = "16,32,64"
GREEDY = {"beam_size": 1, "timeout_ms": 300_000, "split_sentences": False}
"""A verse of two sentences stays one segment, as it is for the oracle."""


def _oracle(folder: Path, threads: tuple[int, int], batches: str, count: int) -> dict[str, float]:
    command = [*priority(), sys.executable, "-m", "benchmarks.oracle", str(folder)]
    command += [*map(str, threads), batches, str(count)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return rates


def _best(folder: Path) -> tuple[tuple[int, int], str, dict[str, float]]:
    """Threads and batch size of the oracle, and what was tried."""
    tried = {
        (threads, batch): rate
        for threads in THREADS
        for batch, rate in _oracle(folder, threads, BATCHES, SEARCH).items()
    }
    (threads, batch) = max(tried, key=lambda key: tried[key])
    shown = {f"{t[0]}x{t[1]}, batch {b if b != '0' else 'all'}": rate for (t, b), rate in tried.items()}
    return threads, batch, shown


def _ours(folder: Path, chosen: Sequence[Sentence]) -> dict[int, Loop]:
    """Closed loops with fewer and fewer clients; each has at least ten sentences per client, but for the slow ones."""
    loops = {}
    with server(folder) as ours:
        bodies = [ours.body(each, **GREEDY) for each in chosen]
        closed_loop(ours.infer, bodies[:CLIENTS], 16)
        for clients, count in ((CLIENTS, COUNT), (16, 80), (8, 48), (1, 8)):
            loops[clients] = closed_loop(ours.infer, bodies[:count], clients)
    return loops


def _plain(folder: Path, chosen: Sequence[Sentence], clients: int) -> float:
    """The simple KServe predictor with as many clients."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [*priority(), sys.executable, "-m", "benchmarks.plain_predictor", str(folder), str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while not _answers(url):
            if process.poll() is not None:
                raise RuntimeError("the plain predictor ended")
            time.sleep(0.2)
        bodies: list[dict[str, Any]] = [
            {"instances": [{"text": s.text, "source_language": s.source, "target_language": s.target}]}
            for s in chosen
        ]
        loop = closed_loop(f"{url}/v1/models/{NAME}:predict", bodies, clients)
        return len(loop.ends) / loop.ends[-1]
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/models/{NAME}", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def _transformers(chosen: Sequence[Sentence]) -> float | None:
    """transformers in float32, or None where its environment was never made."""
    from tinymodel.environment import training_folder

    python = training_folder() / "bin" / "python"
    if not python.exists():
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([(each.text, each.source, each.target) for each in chosen], file)
        file.flush()
        command = [*priority(), str(python), "benchmarks/one_at_a_time.py", str(widened()), file.name]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    rate: float = json.loads(done.stdout.splitlines()[-1])
    return rate


def run() -> Report:
    """Search, oracle, groups, ours, then the others."""
    folder = converted("int8")
    warm(folder)
    chosen = sentences(COUNT)
    threads, batch, tried = _best(folder)
    before = _oracle(folder, threads, batch, COUNT // 2)[batch]
    loops = _ours(folder, chosen)
    # On a machine that does other work too, the better of two measurements on both sides is the fairer opponent.
    oracle = max(before, _oracle(folder, threads, batch, COUNT // 2)[batch])
    ours = {clients: loop.rate for clients, loop in loops.items()}
    groups = _oracle(folder, threads, "groups", COUNT // 2)["groups"]
    plain = _plain(folder, chosen[:24], CLIENTS)
    others = _transformers(chosen[:6])
    figures = [
        Figure(f"{CLIENTS} clients, of the best setting of CTranslate2", ours[64] / oracle, "x", ">=", 0.9),
        Figure("64 clients, of CTranslate2 by groups of 64 as they come", ours[64] / groups, "x", ">=", 1.0),
        Figure("64 clients, of a plain KServe predictor", ours[64] / plain, "x"),
        *(Figure(f"{clients} clients", rate, "sentences/s") for clients, rate in ours.items()),
        Figure("CTranslate2, best setting", oracle, "sentences/s"),
        Figure("CTranslate2, groups of 64", groups, "sentences/s"),
        Figure("plain KServe predictor, 64 clients", plain, "sentences/s"),
    ]
    if others:
        figures.append(Figure("16 clients, of transformers one at a time", ours[16] / others, "x", ">=", 8))
    share = loops[CLIENTS].client_cpu / loops[CLIENTS].ends[-1]
    listed = ", ".join(f"{name}: {rate:.2f}" for name, rate in tried.items())
    notes = (
        f"CTranslate2's best setting: {threads[0]} x {threads[1]} threads, batch {batch}.",
        f"Its settings on {SEARCH} sentences, in sentences/s: {listed}.",
        f"The {CLIENTS} callers ran on the server's cores and took {100 * share:.0f} % of one.",
    )
    method = (
        f"Widened trained model, int8, greedy, {COUNT} held-out verses in both directions, one per call over loopback;"
        " highest priority."
    )
    return Report("throughput", method, tuple(figures), notes)
