"""Progress of long work, for a person at a terminal and for a log file alike.

A step has a name and a size in bytes. On a terminal its line is redrawn; elsewhere plain lines appear every few
seconds, so that a Job's log stays readable. Nothing here decides anything, and no caller waits for it.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TextIO

_REDRAW_SECONDS = 0.2
_LINE_SECONDS = 5.0
"""Between two lines where the output is no terminal: a 2.5 GB archive gives a handful of lines, not thousands."""


class Step(Protocol):
    """One step of the work; use it as a context manager."""

    def advance(self, count: int) -> None:
        """`count` more bytes are done. May be called from several threads."""

    def __enter__(self) -> "Step": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Progress(Protocol):
    """Where steps are announced."""

    def step(self, name: str, total: int | None) -> Step:
        """Begin a step of `total` bytes (None: not known)."""


class NoProgress:
    """Shows nothing; the default of library calls."""

    def step(self, name: str, total: int | None) -> Step:
        return _Silent()


class ConsoleProgress:
    """Shows each step as one line with size, percentage, rate and the expected remaining time."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock

    def step(self, name: str, total: int | None) -> Step:
        return _Line(name, total, self._stream, self._clock)


class _Silent:
    def advance(self, count: int) -> None:
        del count

    def __enter__(self) -> "Step":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _Line:
    def __init__(self, name: str, total: int | None, stream: TextIO, clock: Callable[[], float]) -> None:
        self._name, self._total, self._stream, self._clock = name, total, stream, clock
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._done = 0
        self._started = self._shown = clock()

    def __enter__(self) -> "Step":
        self._show(end=False)
        return self

    def advance(self, count: int) -> None:
        with self._lock:
            self._done += count
            pause = _REDRAW_SECONDS if self._terminal else _LINE_SECONDS
            if self._clock() - self._shown >= pause:
                self._show(end=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._show(end=True, failed=kind is not None)

    def _show(self, *, end: bool, failed: bool = False) -> None:
        self._shown = self._clock()
        text = progress_line(self._name, self._done, self._total, self._shown - self._started)
        if end:
            text += "  failed" if failed else "  done"
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if end else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def progress_line(name: str, done: int, total: int | None, seconds: float) -> str:
    """One line such as `download model.bin   45 %  280 of 622 MB  210 MB/s  2 s left`."""
    if total is None:
        return f"{name:<28} {size_text(done):>9}  {_rate(done, seconds)}".rstrip()
    share = 100 if total == 0 else min(100, done * 100 // total)
    text = f"{name:<28} {share:>3} %  {size_text(done)} of {size_text(total)}  {_rate(done, seconds)}"
    if 0 < done < total and seconds > 0:
        text += f"  {duration_text(seconds * (total - done) / done)} left"
    return text.rstrip()


def size_text(count: int) -> str:
    """Bytes in decimal units, as disks and object stores count them."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit in ("B", "kB") or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable: the last unit always returns")


def duration_text(seconds: float) -> str:
    """Seconds up to two minutes, then minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _rate(done: int, seconds: float) -> str:
    return f"{size_text(int(done / seconds))}/s" if seconds > 0 and done else ""
