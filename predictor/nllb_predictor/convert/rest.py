"""The probability that a trimmed model would take from its dropped tokens, kept where it was.

A model gives every token some probability, those that no text uses included: training with smoothed labels even demands
it. Without them all other probabilities grow, by an amount that differs from step to step, and a beam search between
near ties then chooses otherwise. So a few rows stand for all that is gone. Their logits are a linear function of the
decoder's state, fitted to the logarithm of the dropped tokens' sum; rows that were never trained on are almost
parallel, which makes the fit almost exact. The sum is spread over several rows, so that none of them is likelier than
a token was. Where the dropped tokens are too likely (texts that say too little of what the model is asked) or the fit
is poor, nothing stands for them: a row that could win would be a hole in the output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.forward import Depth, Ids, Sentence, forward
from nllb_predictor.convert.parameters import CheckpointParameters
from nllb_predictor.convert.tensors import Floats, Rows, take

ROWS = 64
"""Rows that share the dropped tokens' probability."""

NEGLIGIBLE = 1e-7
"""Share of the dropped tokens below which nothing has to stand for them: less than float32 keeps of a sum."""

LARGEST = 0.1
"""Share of the dropped tokens, at any state, above which nothing stands for them."""

_TOGETHER = 16
"""Sentences in one pass over the weights."""

_COLUMNS = 4096
"""Dropped rows in hand at a time."""


@dataclass(frozen=True)
class Rest:
    """What stands for the dropped tokens."""

    weights: Floats
    """[rows, width]; no rows where the dropped tokens never had any probability, or nothing may stand for them."""
    bias: Floats
    """[rows]."""
    share: float
    """Mean probability of all dropped tokens together, over the states that were looked at."""
    error: float
    """Largest error of a log-probability that is left, on states that nothing was fitted to."""

    @property
    def rows(self) -> int:
        return len(self.bias)


class _Unit:
    """The unit matrix: a projection that hands the decoder's state out."""

    def __init__(self, width: int) -> None:
        self.shape = (width, width)

    def rows(self, start: int, stop: int) -> Floats:
        return np.eye(self.shape[0], dtype=np.float32)[start:stop]


class _States(CheckpointParameters):
    """The checkpoint's numbers, asked for states instead of logits."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self._width = checkpoint.network.width

    @property
    def projection(self) -> Rows:
        return _Unit(self._width)

    def logit_bias(self) -> Floats | None:
        return None


def fit_rest(checkpoint: Checkpoint, dropped: Ids, sentences: Sequence[Sentence]) -> Rest:
    """Rows for the dropped ones of `checkpoint`. `sentences` give the states; the first step of each, which predicts
    the forced language token, is left out."""
    states = _states(checkpoint, sentences)
    bias = checkpoint.logit_bias()
    gone = _log_sum(states, checkpoint.projection, dropped, bias)
    kept = np.setdiff1d(np.arange(checkpoint.rows), dropped)
    stay = _log_sum(states, checkpoint.projection, kept, bias)
    share = 1 / (1 + np.exp(stay - gone))
    largest = float(share.max())
    if NEGLIGIBLE <= largest <= LARGEST:
        solution, error = _fitted(states, gone, stay)
        # At least half of what the trim would change must be mended.
        if error < -0.5 * np.log1p(-largest):
            return _spread(solution, min(ROWS, len(dropped)), float(share.mean()), error)
    none = np.zeros((0, checkpoint.network.width), np.float32)
    return Rest(none, none[:, 0], float(share.mean()), float(-np.log1p(-min(largest, 0.999999))))


def _fitted(states: Floats, gone: Floats, stay: Floats) -> tuple[Any, float]:
    """Coefficients and constant, and the largest error of a log-probability. Every fifth state only judges."""
    judged = np.arange(len(states)) % 5 == 0
    columns = np.concatenate([states, np.ones((len(states), 1), np.float32)], axis=1).astype(np.float64)
    solution = np.linalg.lstsq(columns[~judged], gone[~judged].astype(np.float64), rcond=1e-7)[0]
    seen = np.logaddexp(stay[judged], columns[judged] @ solution)
    return solution, float(np.abs(seen - np.logaddexp(stay[judged], gone[judged])).max())


def _spread(solution: Any, rows: int, share: float, error: float) -> Rest:
    """The fitted sum as this many equal rows."""
    weights = np.tile(solution[:-1].astype(np.float32), (rows, 1))
    return Rest(weights, np.full(rows, solution[-1] - np.log(rows), np.float32), share, error)


def _states(checkpoint: Checkpoint, sentences: Sequence[Sentence]) -> Floats:
    """The decoder's last state at every step but the first of each sentence, [steps, width]."""
    network = checkpoint.network
    depth = Depth(tuple(range(network.encoder_layers)), tuple(range(network.decoder_layers)))
    parameters = _States(checkpoint)
    found: list[Floats] = []
    for start in range(0, len(sentences), _TOGETHER):
        batch = sentences[start : start + _TOGETHER]
        found += [states[1:] for states in forward(parameters, depth, batch).logits]
    return np.concatenate(found)


def _log_sum(states: Floats, projection: Rows, ids: Ids, bias: Floats | None) -> Floats:
    """log Σ exp(logit) over the rows `ids`, float32 [steps]; -inf for no rows."""
    total: Floats = np.full(len(states), -np.inf, np.float32)
    for start in range(0, len(ids), _COLUMNS):
        some = ids[start : start + _COLUMNS]
        logits = states @ take(projection, some).T
        if bias is not None:
            logits += bias[some]
        largest = logits.max(axis=1)
        total = np.logaddexp(total, largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1)))
    return total
