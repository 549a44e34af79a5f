"""Named cases: a test that carries a case id also names the function that it guards.

`@case("B12", breaks="engine_operator.domain.deletion:gone", naive=delete_what_a_list_lacks)` says: if `gone` were
written the naive way, this test would fail. `python -m tests.support.prove` does that replacement, case by case,
and fails for every test that still passes. An id alone would prove nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """One promise of one test: the id of the situation, the guarded function, and its naive version."""

    id: str
    breaks: str
    """`package.module:function` or `package.module:Class.method`."""
    naive: Callable[..., Any] | None
    """Takes the function's place; None means a function that does nothing and returns None."""
    test: str
    """`module.function` of the test, for the table."""


CASES: dict[tuple[str, str], list[Case]] = {}
"""Every case of the imported test modules by (id, seam); several tests may guard the same seam."""


def case(id: str, breaks: str, naive: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """Mark a test as the one of case `id`. Stack it where one test guards several functions."""
    if breaks.count(":") != 1 or not all(breaks.split(":")):
        raise ValueError(f"case {id}: breaks must be 'package.module:function', not {breaks!r}")

    def mark(test: F) -> F:
        record = Case(id, breaks, naive, f"{test.__module__}.{test.__qualname__}")
        CASES.setdefault((id, breaks), []).append(record)
        marked: F = pytest.mark.case(record)(test)
        return marked

    return mark
