"""What trimming the vocabulary to a pair's own texts gives: speed, size, and whether anything changes.

Three engines of one shape (600M, int8): the widened model with all its 256,206 rows, the same trimmed to what the
training text uses, and the same parent widened with 32,000 rows only, which is nearer to what a pair keeps of NLLB's
own vocabulary (the tiny model's text uses less than 4,000 tokens). Equality is counted on the tiny model in float32,
on whole books that were not trained on, in both directions.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.bars import bars
from benchmarks.models import TINY, cache, converted, warm, widened
from benchmarks.report import ROOT, Figure, Report, median_figure
from nllb_predictor.engine import hardware
from nllb_predictor.text.tokenise import Tokenizer
from tinymodel.settings import Places, cache_dir
from tinymodel.widen import NLLB_600M
from tinymodel.widened import cached

ROUNDS = 5
ALONE = 10
TOGETHER = 64
SMALL_ROWS = 32_000


@dataclass(frozen=True)
class Sentence:
    """One held-out verse in one direction."""

    text: str
    source: str
    target: str


@dataclass(frozen=True)
class Opened:
    """A model folder, ready to translate."""

    folder: Path
    tokenizer: Tokenizer
    translator: Any

    @classmethod
    def of(cls, folder: Path, compute_type: str = "default") -> "Opened":
        import ctranslate2

        warm(folder)
        threads = hardware.threads(0, 0, "cpu", hardware.cores())
        translator = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type=compute_type,
            inter_threads=threads.inter,
            intra_threads=threads.intra,
        )
        return cls(folder, Tokenizer.from_folder(folder), translator)

    def translate(self, sentences: Sequence[Sentence], batch: int, beams: int = 1) -> list[str]:
        """Texts, computed in batches of `batch` sentences in order of length."""
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].text))
        texts = [""] * len(sentences)
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            tokens = [self.tokenizer.encode([sentences[i].text], sentences[i].source)[0] for i in places]
            prefixes = [[sentences[i].target] for i in places]
            results = self.translator.translate_batch(
                tokens,
                target_prefix=prefixes,
                beam_size=beams,
                max_input_length=0,
                max_batch_size=hardware.batch_segments(0, "cpu"),
            )
            for place, result in zip(places, results, strict=True):
                texts[place] = self.tokenizer.decode(result.hypotheses[0])
        return texts


def run() -> Report:
    """All three engines in turn, several rounds."""
    hardware.prepare_isa("auto")
    texts = training_texts()
    forward = [sentence for sentence in held_out() if sentence.source == "eng_Latn"]
    equal, total = _equality(texts)
    engines = {
        "all 256,206 rows": Opened.of(converted("int8")),
        "trimmed": Opened.of(_convert(widened(), texts, "int8")),
        f"{SMALL_ROWS:,} rows": Opened.of(_convert(_small(), (), "int8")),
    }
    alone, together = forward[:: len(forward) // ALONE][:ALONE], forward[:TOGETHER]
    seconds: dict[tuple[str, int], list[float]] = {}
    outputs: dict[str, list[str]] = {}
    for engine in engines.values():
        engine.translate(alone[:1], 1)
    for _ in range(ROUNDS):
        for name, engine in engines.items():
            for sentences, batch in ((alone, 1), (together, TOGETHER)):
                started = time.monotonic()
                outputs[name] = engine.translate(sentences, batch)
                seconds.setdefault((name, batch), []).append(time.monotonic() - started)
    whole, *others = engines
    same = sum(a == b for a, b in zip(outputs[whole], outputs["trimmed"], strict=True))
    figures = [
        Figure("equal output on held-out segments (tiny model)", equal / total, "share", ">=", 0.999),
        Figure("equal output, widened model, one round", same / len(together), "share"),
    ]
    for name in others:
        for batch, target in ((1, 2.0), (TOGETHER, 1.5)):
            ratios = [a / b for a, b in zip(seconds[whole, batch], seconds[name, batch], strict=True)]
            label = f"{name} against all rows, {'one client' if batch == 1 else f'{batch} clients'}"
            goal = (">=", target) if name == "trimmed" else ("report", None)
            figures.append(median_figure(label, ratios, "x", *goal))
    sizes = {name: (engine.folder / "model.bin").stat().st_size / 1e6 for name, engine in engines.items()}
    figures += [Figure(f"size of model.bin, {name}", size, "MB") for name, size in sizes.items()]
    _plot(seconds, {1: len(alone), TOGETHER: len(together)})
    return Report("vocabulary", _method(total), tuple(figures), _notes(engines["trimmed"].folder))


def training_texts() -> tuple[Path, ...]:
    """The tiny model's training text, a file for each language; made from the SWORD texts where it is missing."""
    pairs = Places().pairs
    if not pairs.exists():
        for step in ("texts", "corpus"):
            subprocess.run([sys.executable, "-m", "tinymodel", step], cwd=ROOT, check=True)
    verses = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    paths = []
    for name in ("eng", "spa"):
        path = cache() / f"training-{name}.txt"
        path.write_text("".join(verse[name] + "\n" for verse in verses), encoding="utf-8")
        paths.append(path)
    return tuple(paths)


def held_out() -> list[Sentence]:
    """Every held-out verse in both directions."""
    lines = (ROOT / "tests" / "data" / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    verses = [json.loads(line) for line in lines]
    there = [Sentence(verse["eng"], "eng_Latn", "spa_Latn") for verse in verses]
    return there + [Sentence(verse["spa"], "spa_Latn", "eng_Latn") for verse in verses]


def _small() -> Path:
    return cached(TINY, cache_dir(), replace(NLLB_600M, tokens=SMALL_ROWS - NLLB_600M.spare_rows))


def _convert(source: Path, texts: Sequence[Path], quantization: str) -> Path:
    """A model of this run, trimmed where there are texts."""
    target = cache() / f"vocabulary-{source.name}-{quantization}{'-trimmed' if texts else ''}"
    command = [*(sys.executable, "-m", "nllb_predictor", "convert", str(source), str(target), "--force")]
    command += ["--quantization", quantization]
    if texts:
        command += ["--trim-vocabulary", "--keep-text", *map(str, texts)]
    subprocess.run(command, cwd=ROOT, check=True)
    return target


def _equality(texts: Sequence[Path]) -> tuple[int, int]:
    """Equal and all outputs of beam 4, tiny model, float32."""
    sentences = held_out()
    answers = [
        Opened.of(_convert(TINY, some, "float32"), "float32").translate(sentences, 32, 4)
        for some in ((), texts)
    ]
    return sum(a == b for a, b in zip(*answers, strict=True)), len(sentences)


def _plot(seconds: dict[tuple[str, int], list[float]], counts: dict[int, int]) -> None:
    rows = []
    for (name, batch), samples in sorted(seconds.items(), key=lambda item: item[0][1]):
        rate = counts[batch] / statistics.median(samples)
        clients = "one client" if batch == 1 else f"{batch} clients"
        rows.append((f"{clients}, {name}", rate, f"{rate:.2f}/s"))
    bars("vocabulary", "Sentences per second, 600M shape, int8, greedy", rows)


def _method(total: int) -> str:
    return (
        "600M shape, int8, greedy, CTranslate2 called directly in one process with the threads and the size of batches"
        f" that the server chooses; {ROUNDS} interleaved rounds of {ALONE} sentences one at a time and of {TOGETHER} at"
        " once. Kept: what the training text uses. Equality:"
        f" tiny model, float32, beam 4, {total} held-out segments (both directions).\n\n"
        "![Sentences per second](plots/vocabulary.svg)"
    )


def _notes(trimmed: Path) -> tuple[str, ...]:
    record = json.loads((trimmed / "manifest.json").read_bytes())["vocabularyTrim"]
    kept = (
        f"Trimmed: {record['kept']} of {record['kept'] + record['dropped']} tokens kept from {record['segments']} "
        f"segments; pieces of further text that these never used: {record['unseenShare']:.4%} expected."
    )
    small = (
        f"The tiny model's texts use fewer tokens than a pair keeps of NLLB's own 256,206; {SMALL_ROWS:,} rows are "
        "nearer to that, so the ratio of that engine is the one to expect there."
    )
    return kept, small
