"""The last step before ready: a first translation, and the manifest's probe sentences, translated as recorded.

The converter wrote down what the model made of a few sentences. A model that does not do the same here is not the
model that was tested: wrong files, a broken device, a library that changed its mind. Where compute type and the
recorded quantization agree, the token ids must be equal. Other arithmetic rounds differently and may take another
path after some tokens; then the first token must agree and the score be near.
"""

import logging

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


def warm_up(
    engine: TranslationEngine, tokenizer: Tokenizer, languages: Languages, settings: ServeSettings
) -> None:
    """Translate one short text with the default search, so that no caller pays for first allocations."""
    source = languages.source or min(languages.codes, default=None)
    target = languages.target or min(languages.codes, default=None)
    if source is None or target is None:
        raise ProbeMismatch("The tokenizer has no language codes; this is no NLLB model.")
    tokens = tokenizer.encode([WARM_UP_TEXT], source)[0]
    engine.translate(
        [Segment(tuple(tokens), target)], Search(settings.beam_size, min(16, settings.max_output_tokens))
    )


def check(engine: TranslationEngine, tokenizer: Tokenizer, manifest: Manifest) -> None:
    """Translate every probe greedily. Raises ProbeMismatch, saying what differs."""
    exact = comparable(engine.info.compute_type, manifest.options.quantization.value)
    end = manifest.tokenizer.special.eos
    for probe in manifest.self_test.probes:
        tokens = tokenizer.encode([probe.text], probe.source)[0]
        result = engine.translate(
            [Segment(tuple(tokens), probe.target)], Search(1, limit(probe, end, exact))
        )[0]
        ids = tuple(-1 if each is None else each for each in tokenizer.ids(result.tokens))
        verdict = difference(probe, (*ids, end) if result.complete else ids, result.score, exact)
        if verdict:
            raise ProbeMismatch(
                f"The probe '{probe.text[:60]}' does not translate as recorded: {verdict}.",
                hint=f"Device {engine.info.device}, compute type {engine.info.compute_type}.",
            )
    log.info("probes translated as recorded: count=%d exact=%s", len(manifest.self_test.probes), exact)


def limit(probe: Probe, end: int, exact: bool) -> int:
    """Tokens that the probe's translation may have here. One that was cut is cut at the same place; another
    arithmetic may take a longer way."""
    if probe.tokens[-1] != end:
        return len(probe.tokens)
    return len(probe.tokens) + 1 if exact else 2 * len(probe.tokens) + 16


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
