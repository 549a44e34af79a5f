"""Settings of `serve`: where a value comes from, and what is refused."""

import argparse
import dataclasses

import pytest

from nllb_predictor import settings
from nllb_predictor.errors import UsageError
from nllb_predictor.settings import ServeSettings, from_sources, redacted


def parse(*arguments: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    return vars(parser.parse_args(arguments))


def test_a_flag_goes_before_the_environment_and_that_before_the_default() -> None:
    environment = {"SERVAL_LIVE_REST_PORT": "1", "SERVAL_LIVE_GRPC_PORT": "2"}
    made = from_sources(parse("--rest-port", "3"), environment)
    assert (made.rest_port, made.grpc_port, made.beam_size) == (3, 2, ServeSettings().beam_size)


def test_every_setting_has_a_flag_an_environment_twin_and_a_meaning() -> None:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    text = " ".join(parser.format_help().split())
    for field in dataclasses.fields(ServeSettings):
        assert settings.flag(field.name) in text
        assert f"[{settings.variable(field.name)}]" in text.replace("[ ", "[")
        assert field.metadata["meaning"]


@pytest.mark.parametrize("name", ["SERVAL_LIVE_BEAMSIZE", "SERVAL_LIVE_RST_PORT", "SERVAL_LIVE_"])
def test_a_misspelt_variable_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        from_sources({}, {name: "8"})


@pytest.mark.parametrize(
    "name",
    [
        "SERVAL_LIVE_CACHE",
        "SERVAL_LIVE_STATE",
        "SERVAL_LIVE_BACKEND",
        "SERVAL_LIVE_TIME_FACTOR",
        "SERVAL_LIVE_SOURCE_S3_ENDPOINT",
        "SERVAL_LIVE_SOURCE_AWS_SESSION_TOKEN",
    ],
)
def test_a_shell_prepared_for_the_project_s_other_programs_can_serve(name: str) -> None:
    assert from_sources({}, {name: "1"}) == from_sources({}, {})


def test_variables_that_kubernetes_adds_for_a_service_of_that_name_are_none_of_ours() -> None:
    added = {
        "SERVAL_LIVE_GATEWAY_SERVICE_HOST": "10.0.0.1",
        "SERVAL_LIVE_GATEWAY_SERVICE_PORT": "80",
        "SERVAL_LIVE_GATEWAY_PORT": "tcp://10.0.0.1:80",
        "SERVAL_LIVE_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.1",
        "SERVAL_LIVE_GATEWAY_PORT_80_TCP_PORT": "80",
    }
    assert from_sources({}, added) == from_sources({}, {})


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("SERVAL_LIVE_REST_PORT", "http", "whole number"),
        ("SERVAL_LIVE_ALLOW_ANY_PAIR", "maybe", "true or false"),
        ("SERVAL_LIVE_GRACE_PERIOD_S", "soon", "a number"),
        ("SERVAL_LIVE_DEVICE", "tpu", "auto, cpu, cuda"),
        ("SERVAL_LIVE_REST_PORT", "-1", "negative"),
        ("SERVAL_LIVE_BEAM_SIZE", "0", "at least 1"),
        ("SERVAL_LIVE_BEAM_SIZE", "64", "max-beam-size"),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_what_is_wanted(
    variable: str, value: str, wanted: str
) -> None:
    with pytest.raises(UsageError, match=wanted):
        from_sources({}, {variable: value})


@pytest.mark.parametrize("value", ["true", "1", "Yes"])
def test_any_pair_can_be_allowed_by_environment(value: str) -> None:
    assert from_sources({}, {"SERVAL_LIVE_ALLOW_ANY_PAIR": value}).allow_any_pair


def test_an_empty_variable_counts_as_not_set() -> None:
    assert from_sources({}, {"SERVAL_LIVE_REST_PORT": ""}).rest_port == ServeSettings().rest_port


def test_the_name_is_the_services_then_the_engines() -> None:
    assert ServeSettings(model_name="e66", engine_id="66c4").name == "e66"
    assert ServeSettings(engine_id="66c4").name == "66c4"
    assert ServeSettings().name == "nllb"


@pytest.mark.parametrize(
    "uri",
    ["https://user:s3cret@store/x", "https://store/x?X-Amz-Signature=s3cret", "s3://key:s3cret@bucket/x"],
)
def test_no_secret_of_a_uri_is_printed(uri: str) -> None:
    printed = ServeSettings(model_uri=uri).printable()["model_uri"]
    assert "s3cret" not in printed
    assert printed.endswith("x") or printed.endswith("x?…")


def test_a_uri_without_secrets_is_printed_as_it_is() -> None:
    assert redacted("s3://bucket/a/r3/ct2v1-0/") == "s3://bucket/a/r3/ct2v1-0/"
    assert redacted("/mnt/models") == "/mnt/models"
