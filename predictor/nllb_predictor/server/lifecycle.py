"""What this process is doing, from its first millisecond to its last: the one truth behind health, metadata and drain.

Written by the loading thread and by signal handlers, read by every request. Ready means loaded, warmed up and proven
by the manifest's probes, and not leaving; nothing else may claim it.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from nllb_predictor.errors import NotReady, PredictorError, ShuttingDown
from nllb_predictor.server.statistics import Statistics

if TYPE_CHECKING:
    from nllb_predictor.server.loading import Loaded

log = logging.getLogger(__name__)


class State(StrEnum):
    """Where the process is; each word also appears in messages."""

    STARTING = "starting"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    WARMING = "warming up"
    READY = "ready"
    LAME_DUCK = "leaving, still answering"
    DRAINING = "leaving"
    FAILED = "failed"


LEAVING = (State.LAME_DUCK, State.DRAINING, State.FAILED)


class PhaseName(StrEnum):
    """Timed parts of a cold start. They overlap: a download runs while Python imports the server."""

    PYTHON = "python"
    """Process start until both ports are open."""
    DOWNLOAD = "download"
    """Fetching and checking the artifact."""
    LOAD = "load"
    """Opening model and tokenizer."""
    WARM = "warm"
    """First translations and the manifest's probes."""
    READY = "ready"
    """Process start until ready."""


@dataclass(frozen=True)
class Served:
    """Names that requests may use: the model name and its aliases, the engine id and `default`."""

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The name first, each name once."""
        return tuple(dict.fromkeys((self.name, *self.aliases)))


class Lifecycle:
    """State, phases, and the count of running requests. Safe from every thread."""

    def __init__(self, born: float | None = None) -> None:
        self._lock = threading.Lock()
        self._born = process_start() if born is None else born
        self._state = State.STARTING
        self._phases: dict[PhaseName, float] = {}
        self._loaded: Loaded | None = None
        self._failure: PredictorError | None = None
        self._running = 0
        self._listening = threading.Event()
        self.statistics = Statistics()
        """What was answered and computed so far."""

    @property
    def state(self) -> State:
        return self._state

    @property
    def ready(self) -> bool:
        """Whether traffic should come here."""
        return self._state is State.READY

    @property
    def loaded(self) -> "Loaded | None":
        """The model, once it is proven; it stays while the process leaves."""
        return self._loaded

    @property
    def failure(self) -> PredictorError | None:
        """Why loading failed."""
        return self._failure

    @property
    def running(self) -> int:
        """Requests that were admitted and are not answered yet, both protocols."""
        return self._running

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each finished phase, to the millisecond."""
        with self._lock:
            return {name.value: round(self._phases[name], 3) for name in PhaseName if name in self._phases}

    def enter(self, state: State) -> None:
        """Move on; a process that leaves does not come back."""
        with self._lock:
            if self._state not in LEAVING or state in LEAVING:
                self._state = state
        log.info("state: %s", self._state.value)

    @contextmanager
    def phase(self, name: PhaseName) -> Iterator[None]:
        """Time a phase; only one that ends well is recorded."""
        started = time.monotonic()
        yield
        self._record(name, time.monotonic() - started)

    def since_start(self, name: PhaseName) -> None:
        """Record the time from process start to now as the length of a phase."""
        self._record(name, time.time() - self._born)
        if name is PhaseName.PYTHON:
            self._listening.set()

    def wait_listening(self, seconds: float) -> bool:
        """Wait until both ports are open, at most so long; False where they are not."""
        return self._listening.wait(seconds)

    def _record(self, name: PhaseName, seconds: float) -> None:
        with self._lock:
            self._phases[name] = seconds
        log.info("phase: name=%s seconds=%.3f", name.value, seconds)

    def succeed(self, loaded: "Loaded") -> None:
        """The model is proven."""
        self._loaded = loaded
        self.since_start(PhaseName.READY)
        self.enter(State.READY)

    def fail(self, error: PredictorError) -> None:
        """The model cannot be served."""
        self._failure = error
        self.enter(State.FAILED)

    @contextmanager
    def request(self) -> Iterator["Loaded"]:
        """Admit one request and count it while it runs. Raises NotReady and ShuttingDown."""
        with self._lock:
            if self._state in (State.DRAINING, State.FAILED):
                raise ShuttingDown(
                    "This process is shutting down.", hint="Send the call again; another one answers."
                )
            if self._loaded is None:
                raise NotReady(
                    f"The model is not ready: {self._state.value}.", hint="Send the call again in a moment."
                )
            loaded = self._loaded
            self._running += 1
        try:
            yield loaded
        finally:
            with self._lock:
                self._running -= 1


def process_start(stat: Path = Path("/proc/self/stat")) -> float:
    """When this process began, as `time.time()` counts; now, where /proc does not tell."""
    try:
        ticks = int(stat.read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return time.time() - max(0.0, uptime - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time()
