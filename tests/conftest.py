"""What holds for every tier."""

from tests.support.pace import pytest_collection_modifyitems
from tests.support.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_collection_modifyitems", "pytest_make_collect_report", "pytest_runtest_makereport"]
