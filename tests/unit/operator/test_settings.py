"""Settings: where they come from, what is refused, and what the time factor may not shrink."""

import pytest

from engine_operator.errors import UsageError
from engine_operator.settings import PREFIX, Settings


def test_a_flag_goes_before_the_environment_and_that_before_the_default() -> None:
    environment = {f"{PREFIX}HEALTH_PORT": "9000", f"{PREFIX}MAX_ROLLING": "5", "PATH": "/bin"}
    settings = Settings.load(environment, health_port=9001, namespaces=None)
    assert (settings.health_port, settings.max_rolling, settings.max_converting) == (9001, 5, 3)


def test_lists_numbers_and_fractions_are_read() -> None:
    environment = {f"{PREFIX}NAMESPACES": "a, b,", f"{PREFIX}TIME_FACTOR": "1/30", f"{PREFIX}SETTLE": "1.5"}
    settings = Settings.load(environment)
    assert settings.namespaces == ("a", "b")
    assert settings.time_factor == pytest.approx(1 / 30)
    assert settings.settle == 1.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_ROLING", "5"),
        ("HEALTH_PORT", "http"),
        ("TIME_FACTOR", "1/0"),
        ("TIME_FACTOR", "0"),
        ("LOG_FORMAT", "xml"),
    ],
)
def test_a_misspelled_or_impossible_setting_is_refused_and_never_silent(name: str, value: str) -> None:
    with pytest.raises(UsageError):
        Settings.load({f"{PREFIX}{name}": value})


SERVICE_LINKS = {
    "SERVICE_HOST": "10.96.0.7",
    "SERVICE_PORT": "8080",
    "SERVICE_PORT_HTTP": "8080",
    "PORT": "tcp://10.96.0.7:8080",
    "PORT_8080_TCP": "tcp://10.96.0.7:8080",
    "PORT_8080_TCP_PROTO": "tcp",
    "PORT_8080_TCP_PORT": "8080",
    "PORT_8080_TCP_ADDR": "10.96.0.7",
}
"""What the kubelet sets for a Service of one port called `http`; the Kubernetes documentation lists them."""


@pytest.mark.parametrize("service", ["", "METRICS_", "HEALTH_"])
def test_a_service_of_nearly_our_name_changes_no_setting(service: str) -> None:
    linked = {f"{PREFIX}{service}{name}": value for name, value in SERVICE_LINKS.items()}
    assert Settings.load({**linked, f"{PREFIX}MAX_ROLLING": "5"}) == Settings.load(
        {f"{PREFIX}MAX_ROLLING": "5"}
    )


def test_a_misspelled_port_is_no_service_link() -> None:
    with pytest.raises(UsageError, match="HEALT_PORT is no setting"):
        Settings.load({f"{PREFIX}HEALT_PORT": "9000"})


def test_images_have_no_default_and_their_absence_is_told_by_name() -> None:
    with pytest.raises(UsageError, match=f"{PREFIX}CONVERTER_IMAGE, {PREFIX}RUNTIME_IMAGE_CPU"):
        Settings().require_images()


def test_the_time_factor_scales_the_decisions_too_but_never_a_lease_below_its_bounds() -> None:
    plain, quick = Settings(), Settings(time_factor=1 / 30)
    assert quick.policy().deletion.grace * 30 == plain.policy().deletion.grace
    assert quick.policy().budget.total * 30 == plain.policy().budget.total
    assert quick.lease_timing().duration >= 6.0
    assert quick.poll_policy().trust < plain.poll_policy().trust


def test_every_setting_is_documented_with_its_default() -> None:
    from dataclasses import MISSING, fields
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "operator.md").read_text(encoding="utf-8")
    for one in fields(Settings):
        row = next((line for line in page.splitlines() if f"`{one.name.upper()}`" in line), None)
        assert row is not None, f"{one.name} is not in docs/operator.md"
        if one.default not in (MISSING, "", ()):
            shown = f"{one.default:g}" if isinstance(one.default, float) else str(one.default)
            assert shown in row, f"{one.name}: the page says another default than {shown}"
