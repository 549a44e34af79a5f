"""The command line: `make` for everything, the single steps, `widen`, `check-widened` and `archive`.

Why it exists: one command remakes the committed test data, and benchmarks ask for the wide model by command.
What it refuses to do: import torch, except in `train` and `references`, which run in the training environment.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tinymodel import environment, variants
from tinymodel.errors import QualityTooLow, TinyModelError
from tinymodel.settings import Corpus, Languages, Places, Recipe, Shape, cache_dir

STEPS = ("corpus", "train", "references")
EXAMPLES = """\
examples:
  python -m tinymodel make                         remake tests/data from the texts (up to 45 minutes)
  python -m tinymodel widen tests/data/tiny-nllb   write the 600M-shaped model into the cache, or find it there
  python -m tinymodel archive sharded tests/data/tiny-nllb model.tar.gz
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _COMMANDS[options.command](options)
    except TinyModelError as error:
        print(f"tinymodel: {error.reason}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tinymodel",
        description="Makes the trained tiny NLLB model that tests and benchmarks use.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    make = commands.add_parser("make", help="texts, cleaning, training, references: everything in tests/data")
    make.add_argument("--fresh", action="store_true", help="forget a training run that was stopped")
    for name, text in (
        ("corpus", "read, clean and align the texts"),
        ("train", "train the model (needs torch)"),
        ("references", "record what transformers answers (needs torch)"),
    ):
        step = commands.add_parser(name, help=f"one step of make: {text}")
        step.add_argument("--steps", type=int, help="training steps, other than the recipe's")
        step.add_argument("--data", type=Path, help="folder for the results (default: tests/data)")
    commands.add_parser(
        "texts", help="install the Bible texts that the model is made of and that a test reads"
    )
    wide = commands.add_parser("widen", help="write the 600M-shaped model with the same answers")
    wide.add_argument("small", type=Path)
    wide.add_argument(
        "out", type=Path, nargs="?", help="default: a folder in the cache, kept for the next time"
    )
    check = commands.add_parser(
        "check-widened", help="compare a wide model with its parent and the references"
    )
    check.add_argument("small", type=Path)
    check.add_argument("wide", type=Path)
    check.add_argument("--references", type=Path, default=Places().references / "greedy.jsonl")
    check.add_argument(
        "--segments", type=int, default=2, help="held-out verses to translate in each direction"
    )
    archive = commands.add_parser(
        "archive", help="pack a checkpoint as Serval does, or break it in a known way"
    )
    archive.add_argument("kind", choices=variants.KINDS)
    archive.add_argument("source", type=Path)
    archive.add_argument("out", type=Path)
    return parser


def _make(options: argparse.Namespace) -> None:
    began = time.monotonic()
    places, corpus = Places(), Corpus()
    if options.fresh:
        places.training_state.unlink(missing_ok=True)
    environment.ensure_texts(corpus)
    python = environment.training_python()
    for place, step in enumerate(STEPS, start=1):
        print(f"==> {place}/{len(STEPS)} {step}", flush=True)
        environment.run_step(python, [step])
    judge(places, Recipe())
    print(f"done in {(time.monotonic() - began) / 60:.0f} minutes: {places.data}")


def judge(places: Places, recipe: Recipe) -> None:
    """Print chrF of the recorded references. Raises QualityTooLow."""
    meta = json.loads((places.references / "meta.json").read_text(encoding="utf-8"))
    figures = meta["chrf"]["beam4-early"]
    print("chrF on the held-out books: " + ", ".join(f"{way} {figure}" for way, figure in figures.items()))
    if low := [way for way, figure in figures.items() if figure < recipe.min_chrf]:
        raise QualityTooLow(f"below {recipe.min_chrf} for {', '.join(low)}")


def _texts(options: argparse.Namespace) -> None:
    del options
    environment.ensure_texts(Corpus())


def _places(options: argparse.Namespace) -> Places:
    return Places(data=options.data) if options.data else Places()


def _corpus(options: argparse.Namespace) -> None:
    from tinymodel.corpus import build

    build(Corpus(), _places(options))


def _train(options: argparse.Namespace) -> None:
    from tinymodel.train import Job, train

    recipe = replace(Recipe(), steps=options.steps) if options.steps else Recipe()
    train(Job(Shape(), recipe, Languages(), _places(options)))


def _references(options: argparse.Namespace) -> None:
    from tinymodel.references import record

    record(_places(options), Languages())


def _widen(options: argparse.Namespace) -> None:
    from tinymodel.widened import cached, write

    if options.out:
        write(options.small, options.out)
    print(options.out or cached(options.small, cache_dir()))


def _check_widened(options: argparse.Namespace) -> None:
    from tinymodel.widened import check

    check(options.small, options.wide, options.references, options.segments)


def _archive(options: argparse.Namespace) -> None:
    variants.make_archive(options.kind, options.source, options.out)
    print(options.out)


_COMMANDS = {
    "make": _make,
    "corpus": _corpus,
    "train": _train,
    "references": _references,
    "texts": _texts,
    "widen": _widen,
    "check-widened": _check_widened,
    "archive": _archive,
}
