"""The last step before ready: a first search, and the manifest's probe sentences, translated as recorded.

The converter wrote down what the model made of a few sentences. A model that does not do the same here is not the
model that was tested: wrong files, a broken device, a library that changed its mind. Where compute type and the
recorded quantization agree, the token ids must be equal. Other arithmetic rounds differently and may take another
path after some tokens; then the first token must agree and the score be near.

All of it is paid for by every cold start, so probes share a batch, as they did when they were recorded, and the first
search is only as long as it must be.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from nllb_predictor.convert.manifest import Manifest, Probe
from nllb_predictor.engine.domain import Search, Segment
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.errors import ProbeMismatch
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer

log = logging.getLogger(__name__)

SCORE_TOLERANCE = 0.1
"""Nats per token. int8 against float32 differs by less than 0.03 on real models; a swapped tensor by more than 1."""

WARM_UP_TEXT = "1"
"""Any text will do: it is the first batch that allocates, not its meaning."""

WARM_UP_TOKENS = 3
"""Language token; a step that spreads the beams; a step that reorders their caches. Later ones do nothing new."""


def warm_up(
    engine: TranslationEngine, tokenizer: Tokenizer, languages: Languages, settings: ServeSettings
) -> None:
    """A few steps of the default search, so that no caller pays for what its first use allocates. The probes are
    greedy and warm up everything else."""
    source = languages.source or min(languages.codes, default=None)
    target = languages.target or min(languages.codes, default=None)
    if source is None or target is None:
        raise ProbeMismatch("The tokenizer has no language codes; this is no NLLB model.")
    tokens = tokenizer.encode([WARM_UP_TEXT], source)[0]
    engine.translate(
        [Segment(tuple(tokens), target)],
        Search(settings.beam_size, min(WARM_UP_TOKENS, settings.max_output_tokens)),
    )


def check(engine: TranslationEngine, tokenizer: Tokenizer, manifest: Manifest) -> None:
    """Translate every probe greedily. Raises ProbeMismatch, saying what differs."""
    exact = comparable(engine.info.compute_type, manifest.options.quantization.value)
    end = manifest.tokenizer.special.eos
    probes = manifest.self_test.probes
    for batch in batches(probes, end, exact):
        segments = [_segment(tokenizer, probe) for probe in batch.probes]
        results = engine.translate(segments, Search(1, batch.limit))
        for probe, result in zip(batch.probes, results, strict=True):
            ids = tuple(-1 if each is None else each for each in tokenizer.ids(result.tokens))
            verdict = difference(probe, (*ids, end) if result.complete else ids, result.score, exact)
            if verdict:
                raise ProbeMismatch(
                    f"The probe '{probe.text[:60]}' does not translate as recorded: {verdict}.",
                    hint=f"Device {engine.info.device}, compute type {engine.info.compute_type}.",
                )
    log.info("probes translated as recorded: count=%d exact=%s", len(probes), exact)


def _segment(tokenizer: Tokenizer, probe: Probe) -> Segment:
    return Segment(tuple(tokenizer.encode([probe.text], probe.source)[0]), probe.target)


@dataclass(frozen=True)
class Batch:
    """Probes that are translated together, and the tokens that each of them may have."""

    probes: tuple[Probe, ...]
    limit: int


def batches(probes: Sequence[Probe], end: int, exact: bool) -> list[Batch]:
    """As few batches as possible. A probe that was cut must be cut at the same place, so its length is its batch's
    limit; one that ended by itself goes wherever it has room."""
    cut = [probe for probe in probes if probe.tokens[-1] != end]
    ended = [probe for probe in probes if probe.tokens[-1] == end]
    needed = max((_room(probe, exact) for probe in ended), default=0)
    limits = sorted({len(probe.tokens) for probe in cut})
    roomy = next((limit for limit in limits if limit >= needed), needed)
    return [
        Batch(tuple(p for p in probes if (len(p.tokens) == limit if p in cut else limit == roomy)), limit)
        for limit in sorted({*limits, *([roomy] if ended else [])})
    ]


def _room(probe: Probe, exact: bool) -> int:
    """Tokens that a probe which ended by itself may have here: another arithmetic may take a longer way."""
    return len(probe.tokens) if exact else 2 * len(probe.tokens) + 16


def comparable(effective: str, quantization: str) -> bool:
    """Whether both compute with the same arithmetic; `int8` is short for int8 weights and float32 for the rest."""
    plain = {"int8_float32": "int8"}
    return plain.get(effective, effective) == plain.get(quantization, quantization)


def difference(probe: Probe, found: tuple[int, ...], score: float, exact: bool) -> str:
    """What differs between a probe's record and its translation here; empty where it passes."""
    if exact and found != probe.tokens:
        places = zip(found, probe.tokens, strict=False)
        at = next(
            (index for index, (a, b) in enumerate(places) if a != b), min(len(found), len(probe.tokens))
        )
        return f"token {at} differs"
    # The language token is forced; the first token of the model's own choice is the second one.
    if found[:2] != probe.tokens[:2]:
        return f"it begins with the tokens {list(found[:2])} and not {list(probe.tokens[:2])}"
    if abs(score - probe.score) > SCORE_TOLERANCE:
        return f"its score is {score:.3f} and not {probe.score:.3f}"
    return ""
