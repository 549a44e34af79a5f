"""Moses punctuation normalisation, applied to every NLLB input since training applied it to both sides.

Quotes and dashes become ASCII, an ellipsis three dots, and spaces around punctuation are tidied. It is
sacremoses' normaliser with its defaults (English rules), as machine.py uses it for all languages. It is never applied
to what a caller gets back: offsets and copied text refer to what was sent.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

from nllb_predictor.errors import PredictorError
from nllb_predictor.text.reading import Reading


@cache
def _normaliser() -> Any:
    """sacremoses' class from its own file, without its package.

    The package's `__init__` imports the tokenizer, the truecaser and what they need: half a second of every cold
    start for a class that needs none of it.
    """
    package = importlib.util.find_spec("sacremoses")
    if package is None or package.origin is None:
        raise PredictorError("The library sacremoses is not installed.")
    path = Path(package.origin).with_name("normalize.py")
    spec = importlib.util.spec_from_file_location("nllb_predictor._sacremoses_normalize", path)
    if spec is None or spec.loader is None:
        raise PredictorError(f"The library sacremoses has no {path.name}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules = module.MosesPunctNormalizer()
    # The library hands each pattern to re.sub as text; compiled once, a call costs no cache look-ups.
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules.substitutions)


def normalise_punctuation(text: str) -> str:
    """The text as training saw such a text; idempotence is not promised by the rules."""
    for pattern, replacement in _normaliser():
        text = pattern.sub(replacement, text)
    return text.strip()


def normalised(reading: Reading) -> Reading:
    """The same, with the place of each character kept."""
    if normalise_punctuation(reading.text) == reading.text.strip():
        return reading.stripped()
    for pattern, replacement in _normaliser():
        # Most rules match nothing, or put a space in the place of a space.
        if pattern.sub(replacement, reading.text) != reading.text:
            reading = reading.substituted(pattern, replacement)
    return reading.stripped()
