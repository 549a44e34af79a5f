"""The pytest plugin behind `prove`: lists the cases, or runs one with its guarded function replaced.

Loaded only by `python -m tests.support.prove`; two environment variables steer it, since pytest runs in a process
of its own for each case (a broken function must not leak into the next one).
"""

import functools
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import Case

LIST_VARIABLE = "SERVAL_LIVE_PROVE_LIST"
"""File to which the collected cases are written."""
BREAK_VARIABLE = "SERVAL_LIVE_PROVE_BREAK"
"""`id|package.module:function`: the case whose function is replaced while its test runs."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "case(record): the test of a named case; see tests/support/cases.py")


def pytest_collection_finish(session: pytest.Session) -> None:
    target = os.environ.get(LIST_VARIABLE)
    if target is None:
        return
    rows = [
        {"id": found.id, "breaks": found.breaks, "node": item.nodeid.split("[")[0]}
        for item in session.items
        for found in _cases(item)
    ]
    Path(target).write_text(json.dumps(rows))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """Fixtures run inside too: a guarded function may already be at work in them."""
    wanted = os.environ.get(BREAK_VARIABLE)
    chosen = [found for found in _cases(item) if f"{found.id}|{found.breaks}" == wanted]
    restore = broken(chosen[0]) if chosen else _nothing
    try:
        yield
    finally:
        restore()


def broken(case: Case) -> Callable[[], None]:
    """Replace the case's function wherever it was imported; returns what puts it back.

    Raises LookupError where the seam does not exist: a renamed function must not look like a proof.
    """
    module_name, path = case.breaks.split(":")
    *owners, name = path.split(".")
    holder: Any = importlib.import_module(module_name)
    try:
        holder = functools.reduce(getattr, owners, holder)
        original = inspect.getattr_static(holder, name)
    except AttributeError as error:
        raise LookupError(f"case {case.id}: {case.breaks} does not exist") from error
    plain = original.__func__ if isinstance(original, staticmethod | classmethod) else original
    naive: Any = case.naive if case.naive is not None else _idle(plain)
    if isinstance(original, staticmethod | classmethod):
        naive = type(original)(naive)
    places = [(holder, name)]
    if not owners:
        places += [place for place in _importers(original) if place != (holder, name)]
    for place, attribute in places:
        setattr(place, attribute, naive)

    def restore() -> None:
        for place, attribute in places:
            setattr(place, attribute, original)

    return restore


def _cases(item: pytest.Item) -> list[Case]:
    return [mark.args[0] for mark in item.iter_markers("case")]


def _importers(function: Any) -> list[tuple[Any, str]]:
    """Modules that hold the function under a name of their own (`from module import function`)."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if module is not None and getattr(module, "__dict__", None) is not None
        for name, value in list(vars(module).items())
        if value is function
    ]


def _idle(original: Any) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(original):

        async def idle_async(*_args: Any, **_kwargs: Any) -> None:
            return None

        return idle_async

    def idle(*_args: Any, **_kwargs: Any) -> None:
        return None

    return idle


def _nothing() -> None:
    return None
