"""The limit of each test follows the pace of the run: a wait that lasts seconds in `make test` may last minutes here.

A pytest plugin, loaded by `tests/conftest.py`. It lengthens limits and shortens none.
"""

import pytest

from tests.support.waiting import patience

MARKER = "timeout"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives each test its limit, from its mark or the configuration, times what its waits are stretched by."""
    stretch = patience(1.0)
    if stretch == 1.0:
        return
    usual = float(config.getini(MARKER))
    for item in items:
        mark = item.get_closest_marker(MARKER)
        seconds = float(mark.args[0]) if mark is not None else usual
        item.add_marker(pytest.mark.timeout(seconds * stretch), append=False)
