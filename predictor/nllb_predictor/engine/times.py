"""What the engine has been seen to need: seconds of a batch, and tokens of a translation.

Learned from every batch and forgotten slowly, since a neighbour on the machine, longer texts or another kind of search
change it. It refuses to promise anything before it has seen a batch; guesses until then only shape batches.
"""

from dataclasses import dataclass

FORGET = 0.95
"""Weight of what was known, each time that a batch is seen: about the last twenty count."""

FIRST_RATIO = 1.3
"""Tokens written per token read, before anything was seen."""

FIRST_STEP = 8.0
"""How many tokens of a batch cost as much as one more step, before anything was seen: a decoding step reads all
weights, which is what about so many tokens cost to compute on a CPU."""

FIRST_SEGMENT = 64.0
"""Tokens of a segment that is not known yet."""


@dataclass(frozen=True)
class Work:
    """What one segment will likely cost."""

    steps: float
    """Decoding steps, one after the other."""
    tokens: float
    """Tokens that are computed, all beams together; the unit of cost and of the batch's budget."""
    source: int = 0
    """Tokens that are read."""


@dataclass(frozen=True)
class Begun:
    """A batch that is being computed."""

    segments: int
    tokens: float
    started: float
    seconds: float
    """What it will likely take; 0 where nothing is known."""

    def left(self, now: float) -> float:
        """Tokens that are likely still to be computed. A queue that counted all of them until the last moment would let
        nobody in while a batch runs, and the next one would find nothing to do."""
        share = 1 - (now - self.started) / self.seconds if self.seconds else 1.0
        return self.tokens * max(0.0, share)


class TimeModel:
    """seconds = a * steps of the longest + b * tokens of all, least squares over the last batches, relative errors.

    Not safe for several threads; its owner locks.
    """

    def __init__(self) -> None:
        self._squares = [0.0, 0.0, 0.0]
        self._products = [0.0, 0.0]
        self._seconds = 0.0
        self._tokens = 0.0
        self._segments = 0.0
        self._read = 0.0
        self._written = 0.0
        self._step, self._token = FIRST_STEP, 1.0

    @property
    def known(self) -> bool:
        """Whether a batch has been seen."""
        return self._seconds > 0

    def saw(self, work: Work, segments: int, seconds: float) -> None:
        """A batch of `segments` took `seconds`; `work` has the steps of its longest and the tokens of all."""
        seconds = max(seconds, 1e-6)
        steps, tokens = work.steps / seconds, work.tokens / seconds
        self._squares = [
            FORGET * old + new
            for old, new in zip(self._squares, (steps * steps, steps * tokens, tokens * tokens), strict=True)
        ]
        self._products = [
            FORGET * old + new for old, new in zip(self._products, (steps, tokens), strict=True)
        ]
        self._seconds = FORGET * self._seconds + seconds
        self._tokens = FORGET * self._tokens + work.tokens
        self._segments = FORGET * self._segments + segments
        self._step, self._token = self._solved()

    def _solved(self) -> tuple[float, float]:
        """Seconds of a step and of a token; neither below zero."""
        (ss, st, tt), (s1, t1) = self._squares, self._products
        determinant = ss * tt - st * st
        if determinant > 1e-9 * ss * tt:
            step, token = (s1 * tt - t1 * st) / determinant, (t1 * ss - s1 * st) / determinant
            if step >= 0 and token >= 0:
                return step, token
        by_token = t1 / tt if tt else 0.0
        by_step = s1 / ss if ss else 0.0
        # One cause alone: the one that explains more.
        return (0.0, by_token) if t1 * by_token >= s1 * by_step else (by_step, 0.0)

    def wrote(self, read: int, written: int) -> None:
        """Segments of `read` tokens became translations of `written` tokens."""
        self._read = FORGET * self._read + read
        self._written = FORGET * self._written + written

    @property
    def ratio(self) -> float:
        """Tokens written per token read."""
        return self._written / self._read if self._read else FIRST_RATIO

    @property
    def segment(self) -> float:
        """Tokens of an average segment."""
        return self._tokens / self._segments if self._segments else FIRST_SEGMENT

    def batch_cost(self, steps: float, tokens: float) -> float:
        """Seconds of one batch; before anything was seen in an unknown unit, good for comparisons only."""
        return self._step * steps + self._token * tokens

    def drain(self, tokens: float) -> float:
        """Seconds to compute so much in batches as they were lately; 0 before anything was seen."""
        return tokens * self._seconds / self._tokens if self._tokens else 0.0
