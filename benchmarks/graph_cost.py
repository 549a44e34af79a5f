"""What a word graph costs beside one translation, at the 600M shape."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.keystrokes import size
from benchmarks.models import converted, warm
from benchmarks.report import Figure, Report, median_figure
from benchmarks.serving import sentences
from nllb_predictor.engine import hardware
from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest, Wants
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer

SENTENCES = 12
"""Each is translated and made a graph of in turn, so that both see the same machine."""


def service(folder: Path) -> TranslationService:
    """The pipeline without a server: neither side pays for the wire."""
    engine = TranslationEngine.load(folder, ServeSettings(model_uri=str(folder)))
    tokenizer = Tokenizer.from_folder(folder)
    scheduler = Scheduler(engine, Limits(queue=64, batch=64))
    languages = Languages(frozenset(tokenizer.language_codes), any_pair=True)
    return TranslationService(scheduler, tokenizer, languages, 1024)


def run() -> Report:
    """Interleaved pairs of a translation and a graph."""
    hardware.prepare_isa("auto")
    folder = converted("int8")
    warm(folder)
    made = service(folder)
    options = Options(Search(4, 256), split_sentences=False)
    plain, graphs, sizes = [], [], []
    try:
        for index, each in enumerate(sentences(SENTENCES + 1)):
            request = TranslateRequest((Ask(each.text, each.source, each.target),), options, timeout=300)
            with_graph = replace(request, wants=Wants(graph=True))
            started = time.monotonic()
            asyncio.run(made.translate(request))
            between = time.monotonic()
            graph = asyncio.run(made.translate(with_graph))[0].graph
            ended = time.monotonic()
            if index and graph is not None:
                plain.append(between - started)
                graphs.append(ended - between)
                sizes.append(size(graph.as_json()))
    finally:
        made.close()
        made.scheduler.close()
    translation, whole = (
        median_figure("one translation, beam 4", plain, "s"),
        median_figure("one graph", graphs, "s"),
    )
    figures = (
        Figure("p50 of a graph / p50 of a translation", whole.value / translation.value, "×", "<=", 5.0),
        whole,
        translation,
        Figure("largest graph (target tokens and final states)", max(sizes), "", "<=", 900),
    )
    method = (
        f"Widened trained model, int8, {SENTENCES} sentences, one at a time; each is translated and made a graph of in "
        "turn. A graph holds its own translation with beam 4."
    )
    return Report("graph-cost", method, figures)
