"""Last stage: the answers of a segment's parts become one answer of the segment as it was sent."""

from collections.abc import Sequence

from nllb_predictor.pipeline.answer import Alternative, Translation
from nllb_predictor.pipeline.units import Copied, Found, Prepared

COPIED_SCORE = 0.0
"""Log-probability of returning text as it is: certain, and not computed."""


def joined(prepared: Prepared, found: Sequence[Found]) -> Translation:
    """One answer; `found` has what became of `prepared.units`, in order."""
    answers = iter(found)
    best = [None if isinstance(part, Copied) else next(answers) for part in prepared.parts]
    texts = [
        part.text if answer is None and isinstance(part, Copied) else answer.written[0].text if answer else ""
        for part, answer in zip(prepared.parts, best, strict=True)
    ]
    scored = [each.written[0].hypothesis for each in found]
    weights = [len(each.tokens) + each.complete for each in scored]
    total = sum(each.score * weight for each, weight in zip(scored, weights, strict=True))
    return Translation(
        (Alternative("".join(texts), total / sum(weights) if scored else COPIED_SCORE),),
        tuple(warned for each in found for warned in each.warnings),
        sum(len(unit.segment.tokens) for unit in prepared.units),
        sum(weights),
    )
