"""Sentences per second with many callers, beside CTranslate2 itself and beside the simple ways to serve it.

The oracle is the best of CTranslate2's own settings, found in the same run: the whole set at hand, sorted by length,
no server. Callers send one sentence per call in a closed loop; the rate is taken in the steady state.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import others
from benchmarks.bars import bars
from benchmarks.models import converted, warm
from benchmarks.report import ROOT, Figure, Report
from benchmarks.serving import Loop, Sentence, closed_loop, priority, sentences, server
from nllb_predictor.engine import hardware

CLIENTS = 64
COUNT = 10 * CLIENTS
SEARCH = 4 * 64
"""Sentences of the search for the oracle's settings, so that two workers have several of the largest batches each; the
best one is then measured on half of all."""
THREADS = ((1, 2), (2, 1), (2, 2))
BATCHES = "16,32,64,0"
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


@dataclass(frozen=True)
class Rates:
    """Sentences per second of everything that was measured; all with 64 clients, but for `ours`, by clients."""

    ours: dict[int, float]
    best: tuple[float, float]
    """CTranslate2 with its best setting, before the server and after it."""
    groups: float
    plain: float
    bento: float
    alone: float

    def figures(self) -> tuple[Figure, ...]:
        ours, best = self.ours[CLIENTS], max(self.best)
        return (
            Figure("64 clients, of the best setting of CTranslate2", ours / best, "x", ">=", 0.9),
            Figure(
                "64 clients, of CTranslate2 by groups of 64 as they come", ours / self.groups, "x", ">=", 1.0
            ),
            Figure("64 clients, of a plain KServe predictor", ours / self.plain, "x"),
            Figure("64 clients, of BentoML with its batching", ours / self.bento, "x"),
            Figure("16 clients, of transformers one at a time", self.ours[16] / self.alone, "x", ">=", 8),
            *(Figure(f"{clients} clients", rate, "sentences/s") for clients, rate in self.ours.items()),
            Figure("CTranslate2, best setting", best, "sentences/s", samples=self.best),
            Figure("CTranslate2, groups of 64", self.groups, "sentences/s"),
            Figure("plain KServe predictor, 64 clients", self.plain, "sentences/s"),
            Figure("BentoML, 64 clients", self.bento, "sentences/s"),
            Figure("transformers, one at a time", self.alone, "sentences/s"),
        )

    def plot(self) -> None:
        rates = {
            "predictor": self.ours[CLIENTS],
            "CTranslate2 itself, best setting": max(self.best),
            "CTranslate2 itself, groups of 64": self.groups,
            "BentoML": self.bento,
            "plain KServe predictor": self.plain,
            "transformers, one at a time": self.alone,
        }
        rows = [(name, rate, f"{rate:.2f}/s") for name, rate in rates.items()]
        bars("throughput", "Sentences per second, 64 clients, 600M shape, greedy", rows)


def run() -> Report:
    """Search, oracle, ours, oracle again, groups, then the others."""
    hardware.prepare_isa("auto")  # For all processes that are started here.
    folder = converted("int8")
    warm(folder)
    chosen = sentences(COUNT)
    threads, batch, tried = _best(folder)
    before = _oracle(folder, threads, batch, COUNT // 2)[batch]
    loops = _ours(folder, chosen)
    rates = Rates(
        {clients: loop.rate for clients, loop in loops.items()},
        (before, _oracle(folder, threads, batch, COUNT // 2)[batch]),
        _oracle(folder, threads, "groups", COUNT // 2)["groups"],
        others.plain(folder, chosen[:24], CLIENTS),
        others.bentoml(folder, chosen[: 3 * CLIENTS], CLIENTS),
        others.transformers(chosen[:6]),
    )
    rates.plot()
    share = loops[CLIENTS].client_cpu / loops[CLIENTS].ends[-1]
    listed = ", ".join(f"{name}: {rate:.2f}" for name, rate in tried.items())
    notes = (
        f"CTranslate2's best setting: {threads[0]} x {threads[1]} threads, batch {batch}.",
        f"Its settings on {SEARCH} sentences, in sentences/s: {listed}.",
        f"The {CLIENTS} callers ran on the server's cores and took {100 * share:.0f} % of one.",
    )
    method = (
        f"Widened trained model, int8, greedy, {COUNT} held-out verses in both directions, one per call over loopback;"
        " highest priority. CTranslate2's best setting is measured before and after the server; the better one counts."
        "\n\n![Sentences per second](plots/throughput.svg)"
    )
    return Report("throughput", method, rates.figures(), notes)
