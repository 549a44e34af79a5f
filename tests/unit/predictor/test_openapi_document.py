"""The OpenAPI document against the routes that exist and the words of the contract."""

import json
from collections.abc import Iterator
from typing import Any

from starlette.routing import Route

from nllb_predictor.server import openapi
from nllb_predictor.server.bodies import Bodies
from nllb_predictor.server.faults import TABLE
from nllb_predictor.server.lifecycle import Lifecycle
from nllb_predictor.server.rest import RestApi
from serval_live_contract import schema

DOCUMENT: dict[str, Any] = json.loads(openapi.document())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_reference_leads_somewhere() -> None:
    known = {openapi.PREFIX + name for name in DOCUMENT["components"]["schemas"]}
    found = set(references(DOCUMENT))
    assert found
    assert found <= known


def test_every_path_and_method_is_a_route() -> None:
    app = RestApi(None, Lifecycle(), 1000, Bodies(1.0)).app()  # type: ignore[arg-type]
    found = [route for route in app.routes if isinstance(route, Route)]
    routes = {(route.path, method) for route in found for method in route.methods or ()}
    described = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described <= routes


def test_a_call_names_every_status_of_the_error_table_and_the_words_of_the_contract() -> None:
    translate = DOCUMENT["paths"]["/v2/models/{name}/infer"]["post"]
    assert {str(row.status) for row in TABLE.values()} | {"200", "500"} == set(translate["responses"])
    asked = DOCUMENT["components"]["schemas"]["InferRequest"]["properties"]
    parameters = schema("v2-request")["properties"]["parameters"]["properties"]
    assert set(asked["parameters"]["properties"]) == set(parameters)
