"""How near the engine comes to what the machine could do at best, for each batch size and beam.

Two things cannot be avoided: every decoding step reads all weights of the decoder and the kept keys and values of every
position, and every token costs two operations per weight. So a step takes at least the longer of the two, with the
bandwidth and the int8 peak that a C program reaches on the same cores in the same run. Attention's own multiplications
and everything that is not a matrix are free in this bound, so 1.0 is out of reach.
"""

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bars import bars
from benchmarks.models import converted, warm, widened
from benchmarks.report import ROOT, Figure, Report, median_figure
from benchmarks.serving import sentences
from devcluster import host_packages
from nllb_predictor.engine import hardware
from nllb_predictor.text.tokenise import Tokenizer

BATCHES = (1, 8, 32, 64)
BEAMS = (1, 4)
STEPS = 24
"""Tokens written behind the language token; no end before them and none behind, so that all rows do all steps."""
ROUNDS = 3
PEAK_ROUNDS = 5
BUFFER_MIB = 512
"""Read for the bandwidth; many times any last-level cache that so few cores have."""
STATE_BYTES = 4
"""Keys and values stay float32 on a CPU."""


@dataclass(frozen=True)
class Shape:
    """What of a checkpoint's configuration decides the work."""

    width: int
    inner: int
    encoder_layers: int
    decoder_layers: int
    rows: int

    @classmethod
    def of(cls, folder: Path) -> "Shape":
        config = json.loads((folder / "config.json").read_bytes())
        names = ("d_model", "decoder_ffn_dim", "encoder_layers", "decoder_layers", "vocab_size")
        return cls(*(int(config[name]) for name in names))

    @property
    def step_weights(self) -> int:
        """Weights that one decoding step multiplies with: self-attention 4 D², queries and output of the
        cross-attention 2 D², the feed-forward part 2 D F, and the output projection."""
        layer = 6 * self.width**2 + 2 * self.width * self.inner
        return self.decoder_layers * layer + self.rows * self.width

    @property
    def source_weights(self) -> int:
        """Weights that one source token is multiplied with: the encoder, and the decoder's keys and values of it."""
        layer = 4 * self.width**2 + 2 * self.width * self.inner
        return self.encoder_layers * layer + self.decoder_layers * 2 * self.width**2

    @property
    def position_bytes(self) -> int:
        """Keys and values of one position in one row, all decoder layers."""
        return 2 * self.decoder_layers * self.width * STATE_BYTES


@dataclass(frozen=True)
class Peak:
    """Bytes read per second and int8 operations per second, all cores together."""

    bandwidth: float
    operations: float

    def bound(self, shape: Shape, source: int, rows: int, beams: int) -> float:
        """Seconds below which no program gets for `rows` sentences of `source` tokens."""
        reading = shape.source_weights / self.bandwidth
        seconds = max(reading, 2 * shape.source_weights * source * rows / self.operations)
        for step in range(STEPS):
            wide = rows * beams
            state = wide * shape.position_bytes * (source + step)
            reading = (shape.step_weights + state) / self.bandwidth
            seconds += max(reading, 2 * shape.step_weights * wide / self.operations)
        return seconds


def peaks(scratch: Path) -> list[Peak]:
    """What this machine reaches, several times over. Installs a C compiler where there is none. Raises HostUnfit."""
    host_packages.ensure("cc")
    program = scratch / "peaks"
    source = ROOT / "benchmarks" / "peaks.c"
    if not program.exists():
        command = ["cc", "-O3", "-march=native", "-pthread", str(source), "-o", str(program)]
        subprocess.run(command, check=True)
    threads = len(os.sched_getaffinity(0))
    command = [str(program), str(threads), str(BUFFER_MIB), str(PEAK_ROUNDS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Peak(*map(float, line.split())) for line in done.stdout.splitlines()]


def _measured(folder: Path, source: list[str], target: str) -> dict[tuple[int, int], list[float]]:
    """Seconds of each batch size and beam, interleaved."""
    import ctranslate2

    translator: Any = ctranslate2.Translator(str(folder), intra_threads=len(os.sched_getaffinity(0)))
    seconds: dict[tuple[int, int], list[float]] = {}
    for turn in range(ROUNDS + 1):
        for beams in BEAMS:
            for rows in BATCHES if turn else (1,):
                started = time.monotonic()
                translator.translate_batch(
                    [source] * rows,
                    target_prefix=[[target]] * rows,
                    beam_size=beams,
                    max_input_length=0,
                    min_decoding_length=STEPS + 1,
                    max_decoding_length=STEPS + 1,
                )
                if turn:
                    seconds.setdefault((rows, beams), []).append(time.monotonic() - started)
    return seconds


def run() -> Report:
    """The machine's peaks before and after; the better ones count."""
    hardware.prepare_isa("auto")
    folder, shape = converted("int8"), Shape.of(widened())
    warm(folder)
    tokenizer = Tokenizer.from_folder(folder)
    encoded = [(tokenizer.encode([each.text], each.source)[0], each.target) for each in sentences(100)]
    source, target = min(encoded, key=lambda pair: abs(len(pair[0]) - STEPS))
    with tempfile.TemporaryDirectory() as scratch:
        seen = peaks(Path(scratch))
        seconds = _measured(folder, source, target)
        seen += peaks(Path(scratch))
    best = Peak(max(each.bandwidth for each in seen), max(each.operations for each in seen))
    figures = [
        Figure(
            "bandwidth, streaming read", best.bandwidth / 1e9, "GB/s", samples=_all(seen, "bandwidth", 1e9)
        ),
        Figure(
            "int8 multiply and add", best.operations / 1e12, "T/s", samples=_all(seen, "operations", 1e12)
        ),
    ]
    rows = []
    for (batch, beams), samples in sorted(seconds.items(), key=lambda item: (item[0][1], item[0][0])):
        bound = best.bound(shape, len(source), batch, beams)
        ratio = median_figure(
            f"batch {batch}, beam {beams}: bound / measured", [bound / s for s in samples], ""
        )
        figures.append(ratio)
        rows.append((f"batch {batch}, beam {beams}", ratio.value, f"{ratio.value:.2f}"))
    bars("roofline", "Share of the machine's bound, 600M shape, int8", rows)
    method = (
        f"Widened trained model, int8, copies of one sentence of {len(source)} tokens, {STEPS} tokens written,"
        f" CTranslate2 called directly with all cores, {ROUNDS} interleaved rounds. The bound is the longer of reading"
        " and computing, with the best of ten measurements of each on the same cores before and after.\n\n"
        "![Bound / measured](plots/roofline.svg)"
    )
    return Report("roofline", method, tuple(figures), _notes(shape, best, seconds))


def _notes(shape: Shape, best: Peak, seconds: dict[tuple[int, int], list[float]]) -> tuple[str, ...]:
    each = ", ".join(
        f"{batch}x{beams}: {1000 * min(samples) / STEPS:.0f} ms"
        for (batch, beams), samples in seconds.items()
    )
    reads, computes = shape.step_weights / best.bandwidth, best.operations / (2 * best.bandwidth)
    weights = (
        f"Reading the {shape.step_weights / 1e6:.1f} M weights of a step takes {1000 * reads:.0f} ms; from about "
        f"{computes:.0f} rows on computing takes longer than that."
    )
    return (f"Quickest time per step with its share of the encoder (batch x beam): {each}.", weights)


def _all(seen: list[Peak], name: str, unit: float) -> tuple[float, ...]:
    return tuple(float(getattr(each, name)) / unit for each in seen)
