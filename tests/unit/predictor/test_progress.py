"""Progress lines, with a clock of the test's own."""

import io

import pytest

from nllb_predictor.progress import ConsoleProgress, duration_text, progress_line, size_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_every_few_seconds_and_one_at_the_end() -> None:
    stream, clock = io.StringIO(), Clock()
    with ConsoleProgress(stream, clock).step("download", 1000) as step:
        for _ in range(10):
            clock.now += 1
            step.advance(100)
    lines = stream.getvalue().splitlines()
    assert [line.split("%")[0].split()[-1] for line in lines] == ["0", "50", "100", "100"]
    assert "500 B of 1 kB" in lines[1]
    assert "100 B/s" in lines[1]
    assert "5 s left" in lines[1]
    assert lines[-1].endswith("done")


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    stream, clock = Terminal(), Clock()
    with ConsoleProgress(stream, clock).step("download", 100) as step:
        clock.now += 1
        step.advance(40)
        step.advance(1)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r") == 3


def test_a_failed_step_says_so() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), ConsoleProgress(stream, Clock()).step("upload", None):
        raise KeyError
    assert stream.getvalue().splitlines()[-1].endswith("failed")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (622_000_000, "622 MB"),
        (2_460_000_000, "2.5 GB"),
        (10**13, "10000 GB"),
    ],
)
def test_sizes_are_written_in_decimal_units(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_written_in_seconds_then_minutes() -> None:
    assert [duration_text(seconds) for seconds in (3.4, 119, 120, 3600)] == [
        "3 s",
        "119 s",
        "2 min",
        "60 min",
    ]


def test_nothing_left_to_do_is_all_done() -> None:
    assert "100 %" in progress_line("empty", 0, 0, 1.0)
