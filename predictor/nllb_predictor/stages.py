"""What a call's time goes to, told to whoever listens to that call: a stage, when it began and ended, and numbers.

Pipeline and scheduler tell, the server listens where traces are wanted. Nothing here can carry text of a caller, and
where nobody listens a stage costs one look-up. Times are those of `time.monotonic`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum


class Stage(StrEnum):
    """Parts of a call, in order; those of the engine come once for each of its batches."""

    PREPARE = "prepare"
    """Text to tokens."""
    QUEUE = "queue"
    """Waiting for a batch."""
    BATCH = "batch"
    """In the engine, together with segments of other calls."""
    DECODE = "decode"
    """Tokens to text, and judging it."""
    ANSWER = "answer"
    """Sentences to segments: words, alignment, graph."""


Facts = Mapping[str, int | str]
Listener = Callable[[Stage, float, float, Facts], None]
"""Hears a stage with its beginning and end. May be called from any thread."""

listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
"""Who listens to the call that this task belongs to."""


@contextmanager
def timed(stage: Stage) -> Iterator[None]:
    """The block is a stage of the call."""
    tell = listener.get()
    if tell is None:
        yield
        return
    started = time.monotonic()
    try:
        yield
    finally:
        tell(stage, started, time.monotonic(), {})
