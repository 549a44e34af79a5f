"""Words that the fault proxy and the Serval stand-in share: which requests trouble hits, and what they hear."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What is sent instead of the server's own answer; without a body whoever sends it decides it."""

    status: int
    body: str | None = None
    content_type: str = "application/json"
    retry_after: int | None = None
    """Seconds, as a header."""


@dataclass(frozen=True)
class Match:
    """Which requests a fault takes: a search in `path?query`, a verb, a number of times, a length of time."""

    path: str = ""
    method: str | None = None
    times: int | None = None
    for_: float | None = None
