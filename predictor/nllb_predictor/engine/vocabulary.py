"""The model's output vocabulary: which row of its logits is which token.

Read when first asked for, since a plain translation never needs it and a quarter of a million strings cost every cold
start.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nllb_predictor.engine.domain import NextToken
from nllb_predictor.jsonfiles import read_json_array

VOCABULARY_FILE = "shared_vocabulary.json"


class Vocabulary:
    """Tokens of the model in `folder`, in the order of its rows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / VOCABULARY_FILE

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Token of each row; rows without a token have a dummy name."""
        return tuple(str(token) for token in read_json_array(self._path))

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row of each token."""
        return {token: row for row, token in enumerate(self.tokens)}

    def choice(self, allowed: Sequence[str]) -> Any:
        """Rows of the allowed tokens, or None for all."""
        return np.array([self.rows[token] for token in allowed if token in self.rows]) if allowed else None

    def likeliest(self, logits: Any, top: int, choice: Any) -> tuple[NextToken, ...]:
        """The `top` likeliest tokens of one row of logits, best first; probabilities are over the whole vocabulary."""
        row = np.array(logits, dtype=np.float32)
        log_total = float(row.max()) + float(np.log(np.exp(row - row.max()).sum()))
        places = np.arange(len(row)) if choice is None else choice
        values = row[places]
        count = min(top, len(places))
        best = np.argpartition(-values, count - 1)[:count] if count else np.array([], dtype=int)
        best = best[np.argsort(-values[best], kind="stable")]
        return tuple(
            NextToken(self.tokens[int(places[index])], float(values[index]) - log_total) for index in best
        )
