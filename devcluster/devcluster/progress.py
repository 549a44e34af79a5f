"""Says what is being done and how long it took, one line a step, on stderr so that stdout stays for answers."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """One line for the person who waits."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announces a step, and ends the line with its duration. A failing step says so and passes the error on."""
    say(f"… {title}")
    begin = time.monotonic()
    try:
        yield
    except BaseException:
        say(f"✗ {title} ({time.monotonic() - begin:.1f} s)")
        raise
    say(f"✓ {title} ({time.monotonic() - begin:.1f} s)")
