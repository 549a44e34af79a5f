"""The two CRDs as files; the API server's own judgement of them belongs to the integration tests."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from engine_operator.domain import conditions, engine, keys
from nllb_predictor.settings import ServeSettings, variable

CRDS = {
    name: yaml.safe_load((files("engine_operator") / "crds" / f"{name}.yaml").read_text())
    for name in ("servalsources", "translationengines")
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = CRDS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def spec(name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema(name)["properties"]["spec"]["properties"]
    return found


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")


@pytest.mark.parametrize("block", ["serving", "policy", "warmWindows", "quantization"])
def test_both_resources_have_the_same_blocks_since_one_is_the_others_default(block: str) -> None:
    assert spec("servalsources")[block] == spec("translationengines")[block]


def test_serving_block_has_exactly_the_fields_of_the_domain() -> None:
    def camel(name: str) -> str:
        head, *tail = name.split("_")
        return head + "".join(word.title() for word in tail)

    fields = {camel(name) for name in engine.ServingSpec.__dataclass_fields__}
    assert set(spec("translationengines")["serving"]["properties"]) == fields


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("serving", "profile"), engine.Profile),
        (("serving", "protocol"), engine.Protocol),
        (("serving", "exposure"), engine.Exposure),
        (("rollout", "strategy"), engine.Strategy),
        (("rollout", "start"), engine.RolloutStart),
        (("quantization",), keys.Quantization),
        (("policy", "reconvert"), engine.Reconvert),
    ],
)
def test_enums_have_the_words_of_the_domain(path: tuple[str, ...], words: Any) -> None:
    node: dict[str, Any] = {"properties": spec("translationengines")}
    for name in path:
        node = node["properties"][name]
    assert node["enum"] == [word.value for word in words]


@pytest.mark.parametrize("name", sorted(CRDS))
def test_schema_is_closed_and_bounded(name: str) -> None:
    """No field swallows unknown words, and what people write has a greatest length, so that CEL stays cheap."""
    for path, node in nodes(schema(name)):
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        if not path.startswith(".spec"):
            continue
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


@pytest.mark.parametrize("name", sorted(CRDS))
def test_explain_has_something_to_say_of_every_field_that_people_write(name: str) -> None:
    mute = [
        path
        for path, node in nodes(schema(name)["properties"]["spec"])
        if path and "[]" not in path and "description" not in node and "resources" not in path
    ]
    assert mute == []


def test_condition_of_the_printer_column_exists() -> None:
    columns = CRDS["translationengines"]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert any(conditions.AVAILABLE in column["jsonPath"] for column in columns)
    assert all(column["name"] for column in columns)


OURS = {
    "model_uri", "model_name", "engine_id", "model_revision", "manifest_sha256", "attempt", "host", "rest_port",
    "grpc_port", "cache_dir", "device", "s3_endpoint", "s3_region", "s3_ca_file", "termination_log",
}  # fmt: skip
"""Settings of a predictor that say which model it serves, from where, and where it listens: the operator's."""


def test_people_may_set_every_setting_of_the_predictor_but_ours() -> None:
    name = spec("translationengines")["serving"]["properties"]["env"]["items"]["properties"]["name"]
    _, rule = name["x-kubernetes-validations"]
    allowed = set(re.findall(r"'(SERVAL_LIVE_\w+)'", rule["rule"])) - {"SERVAL_LIVE_"}
    assert allowed == {variable(one) for one in set(ServeSettings.__dataclass_fields__) - OURS}
    told = re.findall(r"(?:SERVAL_LIVE)?_([A-Z]\w+)", rule["message"])
    assert {f"SERVAL_LIVE_{one}" for one in told} == allowed


BIGGEST_ANNOTATIONS = 262_144
"""Bytes of all annotations of an object, by Kubernetes; what keeps a copy of an object there breaks above that."""


def biggest(node: dict[str, Any]) -> int:
    """Characters of the longest JSON that a schema admits."""
    if "enum" in node:
        return max(len(str(word)) for word in node["enum"]) + 2
    match node.get("type"):
        case "string":
            return int(node["maxLength"]) + 2
        case "array":
            return int(node["maxItems"]) * (biggest(node["items"]) + 1) + 2
        case "object" if "additionalProperties" in node:
            return int(node["maxProperties"]) * (biggest(node["additionalProperties"]) + 253 + 4)
        case "object":
            return sum(len(name) + 4 + biggest(child) for name, child in node["properties"].items()) + 2
        case _:
            return 32  # Numbers, booleans, and quantities as Kubernetes writes them.


@pytest.mark.parametrize("name", sorted(CRDS))
def test_a8_the_longest_spec_that_is_accepted_would_even_fit_into_an_annotation(name: str) -> None:
    assert biggest(schema(name)["properties"]["spec"]) < BIGGEST_ANNOTATIONS
