"""chrF on the books that the model never saw.

Why it exists: one definition of the figure for training, tests and documentation. Texts on both sides are compared
after machine.py's punctuation step, since a model trained on plain quotes can only write plain quotes.
What it refuses to do: translate.
"""

from collections.abc import Sequence

from tinymodel.normalise import punctuation_normaliser


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus chrF, 0 to 100, with sacreBLEU's defaults (character 6-grams, beta 2)."""
    from sacrebleu.metrics.chrf import CHRF

    normalise = punctuation_normaliser()
    return float(CHRF().corpus_score(list(hypotheses), [[normalise(text) for text in references]]).score)
