"""Keys that word graphs save a person who types a translation with sil-machine's interactive translator.

The texts are verses of books that the tiny model was not trained on, in both directions; what the person types is the
published translation, which differs a lot from the model's. So the shares are small, and their ratios count.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import bars
from benchmarks.models import TINY
from benchmarks.report import ROOT, Figure, Report
from benchmarks.serving import priority
from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.graph.explore import OTHER_WAYS
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest, Wants
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer

VERSES = 152
"""Of the 203, each in both directions: every fourth is left out, so that a run stays within minutes."""
RESAMPLES = 4000
WORKERS = 2
OURS = "our graph"
LARGEST = "largest graph (target tokens and final states)"


@dataclass(frozen=True)
class Text:
    """A verse to translate, and what the person types."""

    ask: Ask
    reference: str


@dataclass(frozen=True)
class Kind:
    """A kind of graph: hypotheses of the beam, and other ways beside them."""

    name: str
    beams: int
    other_ways: int


KINDS = (Kind("1-best", 1, 0), Kind("4-best", 4, 0), Kind("16-best", 16, 0), Kind(OURS, 4, OTHER_WAYS))


def texts() -> list[Text]:
    """Held-out verses, both directions."""
    lines = (ROOT / "tests" / "data" / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for index, line in enumerate(lines) if index % 4 != 3][:VERSES]
    there = [Text(Ask(each["eng"], "eng_Latn", "spa_Latn"), each["spa"]) for each in records]
    back = [Text(Ask(each["spa"], "spa_Latn", "eng_Latn"), each["eng"]) for each in records]
    return there + back


def converted_tiny(folder: Path) -> Path:
    """The tiny model at float32."""
    target = folder / "model"
    command = [*(sys.executable, "-m", "nllb_predictor", "convert", str(TINY), str(target))]
    subprocess.run([*command, "--quantization", "float32"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return target


def graphs(model: Path, kind: Kind, asks: Sequence[Ask]) -> list[dict[str, Any]]:
    """The graph of each segment, as Serval's JSON."""
    engine = TranslationEngine.load(model, ServeSettings(model_uri=str(model)))
    tokenizer = Tokenizer.from_folder(model)
    scheduler = Scheduler(engine, Limits(queue=len(asks) * 4, batch=64))
    languages = Languages(frozenset(tokenizer.language_codes), any_pair=True)
    service = TranslationService(scheduler, tokenizer, languages, 1024, other_ways=kind.other_ways)
    options = Options(Search(kind.beams, 256), split_sentences=False)
    request = TranslateRequest(tuple(asks), options, Wants(graph=True), timeout=600)
    try:
        answers = asyncio.run(service.translate(request))
    finally:
        service.close()
        scheduler.close()
    return [answer.graph.as_json() for answer in answers if answer.graph is not None]


def pressed(made: Sequence[dict[str, Any]], chosen: Sequence[Text]) -> list[int]:
    """Keys for each text, by several processes."""
    lines = [
        json.dumps({"graph": graph, "source": text.ask.text, "reference": text.reference})
        for graph, text in zip(made, chosen, strict=True)
    ]
    command = [*priority(), sys.executable, "-m", "benchmarks.typist"]
    found = [0] * len(lines)
    with tempfile.TemporaryDirectory() as scratch:
        running = []
        for worker in range(WORKERS):
            path = Path(scratch) / str(worker)
            path.write_text("\n".join(lines[worker::WORKERS]) + "\n", encoding="utf-8")
            with path.open("rb") as tasks:
                running.append(subprocess.Popen(command, cwd=ROOT, stdin=tasks, stdout=subprocess.PIPE))
        for worker, process in enumerate(running):
            output, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"a typist ended with {process.returncode}")
            found[worker::WORKERS] = [int(line) for line in output.split()]
    return found


def size(graph: dict[str, Any]) -> int:
    """What consumers hold in a bounded queue: target tokens and final states."""
    return sum(len(arc["targetTokens"]) for arc in graph["arcs"]) + len(graph["finalStates"])


def interval(characters: Sequence[int], ours: Sequence[int], other: Sequence[int]) -> tuple[float, float]:
    """95 % bootstrap interval, over texts, of the ratio of saved shares."""
    total, first, second = (np.array(each, dtype=float) for each in (characters, ours, other))
    picks = np.random.default_rng(7).integers(0, len(total), (RESAMPLES, len(total)))
    sums = total[picks].sum(axis=1)
    ratios = (sums - first[picks].sum(axis=1)) / (sums - second[picks].sum(axis=1))
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def run() -> Report:
    """Each kind of graph, the same texts."""
    chosen = texts()
    characters = [len(text.reference) for text in chosen]
    counted: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        model = converted_tiny(Path(scratch))
        for kind in KINDS:
            made = graphs(model, kind, [text.ask for text in chosen])
            sizes[kind.name] = [size(graph) for graph in made]
            counted[kind.name] = pressed(made, chosen)
            print(f"  {kind.name}: {saved(characters, counted[kind.name]):.2%} saved", flush=True)
    shares = {name: saved(characters, keys) for name, keys in counted.items()}
    low, high = interval(characters, counted[OURS], counted["4-best"])
    bars("keystrokes", "Keys saved", [(name, share, f"{share:.1%}") for name, share in shares.items()])
    figures = (
        Figure("our graph's saved share / 4-best graph's", shares[OURS] / shares["4-best"], "×", ">=", 1.15),
        Figure("lower end of its 95 % interval (bootstrap)", low, "×", ">=", 1.0),
        Figure("upper end", high, "×"),
        *(Figure(f"keys saved, {name}", 100 * share, "%") for name, share in shares.items()),
        Figure(LARGEST, max(sizes[OURS]), "", "<=", 900),
        Figure("its mean", float(np.mean(sizes[OURS])), ""),
    )
    method = (
        f"{len(chosen)} held-out verses ({VERSES}, both directions), tiny model, float32; sil-machine's interactive "
        "translator and phrase suggester with their defaults. A person types the reference; the longest right "
        "beginning of the first suggestion is accepted with one key; without help each character is one.\n\n"
        "![Keys saved](plots/keystrokes.svg)"
    )
    return Report("keystrokes", method, figures)


def saved(characters: Sequence[int], keys: Sequence[int]) -> float:
    """Share of the characters that needed no key."""
    return 1 - sum(keys) / sum(characters)
