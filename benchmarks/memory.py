"""Whether memory stays flat: resident after 100,000 calls of mixed shape against after 1,000.

On the tiny model, whose weights are small enough for a leak of a few bytes per call to show.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.models import TINY
from benchmarks.report import ROOT, Figure, Report
from benchmarks.serving import Server, mixed_loop, sentences, server

EARLY, LATE = 1_000, 100_000
CLIENTS = 16
KINDS = ("blank", "digits", "word", "sentence", "chapter", "unknown language", "other model")
WEIGHTS = (20, 20, 30, 20, 10, 5, 4)
"""Chapters make the largest batches: the first thousand calls hold enough of them to have seen those."""


def _body(ours: Server, kind: str, chance: random.Random) -> tuple[str, dict[str, Any]]:
    """URL and body of one call."""
    verse = chance.choice(sentences(200))
    texts = {
        "blank": [" "],
        "digits": [str(chance.randrange(10**6))],
        "word": [chance.choice(verse.text.split())],
        "chapter": [each.text for each in sentences(8, chance.randrange(100))],
    }.get(kind, [verse.text])
    target = "xx_Nope" if kind == "unknown language" else verse.target
    tensors = {"text": texts, "source_language": [verse.source], "target_language": [target]}
    inputs = [
        {"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}
        for name, data in tensors.items()
    ]
    url = ours.infer.replace("/bench/", "/nobody/") if kind == "other model" else ours.infer
    return url, {"inputs": inputs, "parameters": {"beam_size": chance.choice((1, 2)), "timeout_ms": 300_000}}


def run() -> Report:
    """One process, two looks at its memory, and one in between."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "tiny"
        command = [sys.executable, "-m", "nllb_predictor", "convert", str(TINY), str(folder)]
        subprocess.run([*command, "--quantization", "int8"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        chance = random.Random(3)
        with server(folder, timed=False) as ours:
            resident = []
            done = 0
            for until in (EARLY, LATE // 2, LATE):
                kinds = chance.choices(KINDS, WEIGHTS, k=until - done)
                mixed_loop((_body(ours, kind, chance) for kind in kinds), CLIENTS)
                resident.append(ours.resident() / 2**20)
                print(f"  {until} calls: {resident[-1]:.1f} MiB", flush=True)
                done = until
    figures = (
        Figure("resident after 100,000 calls", resident[2] / resident[0], "x of after 1,000", "<=", 1.05),
        Figure("second half of the calls", resident[2] - resident[1], "MiB"),
        Figure("resident after 1,000 calls", resident[0], "MiB"),
    )
    method = f"Tiny model, {CLIENTS} clients in a closed loop; calls of {', '.join(KINDS)} at random."
    return Report("memory", method, figures)
