"""The punctuation step that machine.py puts in front of every NLLB tokenizer.

Why it exists: training, references and quality figures must see what a served model sees. sacremoses' defaults, both
languages alike. What it refuses to do: lower-case, tokenise or repair anything.
"""

from collections.abc import Callable
from functools import cache


@cache
def punctuation_normaliser() -> Callable[[str], str]:
    """A function text -> text with plain quotes and dashes."""
    from sacremoses import MosesPunctNormalizer

    normaliser = MosesPunctNormalizer()

    def normalise(text: str) -> str:
        return str(normaliser.normalize(text))

    return normalise
