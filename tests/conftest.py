"""What holds for every tier."""

from hypothesis import HealthCheck, settings

from tests.support.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile(
    "any-load", settings.default, deadline=None, suppress_health_check=(HealthCheck.too_slow,)
)
settings.load_profile("any-load")
