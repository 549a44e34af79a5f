"""Probe sentences: what a converted model made of them is in its manifest, and every new pod must make the same.

Converter and predictor share this module so that both decode in exactly one way: greedily, the language token forced,
at most `LIMIT` tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROBE_TEXTS = ("The river rose, and the bridge held.", "Nobody slept that night.")
"""Short, plain, without names: any NLLB model makes something of them, and a probe costs every cold start."""

LIMIT = 8
"""Tokens of a probe's output, language token and `</s>` included. Each is a step of every cold start, about 25 ms per
probe for the 600M shape on two cores; a model that chooses seven tokens in a row as recorded is that model."""


@dataclass(frozen=True)
class Decoded:
    """Output tokens of one probe: language token first, `</s>` last unless the limit cut it; `score` is the mean
    log-probability with the language token counted as 0."""

    tokens: tuple[str, ...]
    score: float
    logits: tuple[Any, ...] = ()
    """Per token, CTranslate2's array of logits, where asked for."""


def decode_probes(
    translator: Any,
    sources: Sequence[Sequence[str]],
    target: str,
    *,
    limit: int = LIMIT,
    logits: bool = False,
) -> list[Decoded]:
    """Greedy output for tokenized sources. `translator` is a `ctranslate2.Translator`."""
    results = translator.translate_batch(
        [list(source) for source in sources],
        target_prefix=[[target]] * len(sources),
        beam_size=1,
        max_decoding_length=limit,
        min_decoding_length=0,
        return_end_token=True,
        return_scores=True,
        return_logits_vocab=logits,
    )
    return [
        Decoded(tuple(result.hypotheses[0]), result.scores[0], tuple(result.logits[0]) if logits else ())
        for result in results
    ]
