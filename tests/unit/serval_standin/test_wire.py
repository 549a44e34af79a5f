"""The form of what goes over the wire: JSON, dates, problems, routing."""

import re

import httpx
import pytest

from tests.support.serval import EngineSpec, EngineType, ServalStandIn
from tests.support.serval.clock import Ticks, read, stored, written
from tests.support.serval.rendering import dumps
from tests.unit.serval_standin.conftest import API, client

NEW = {"name": "team:ruth:1", "sourceLanguage": "es", "targetLanguage": "kmr-Latn", "type": "nmt"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.0, "0"),
        (0.5, "0.5"),
        (1e-08, "1E-08"),
        (0.6123, "0.6123"),
        ({"a": None, "b": [1.0, None]}, '{"b":[1,null]}'),
        ("Génesis", '"Génesis"'),
        (True, "true"),
    ],
)
def test_json_is_written_as_dotnet_writes_it(value: object, text: str) -> None:
    assert dumps(value) == text


def test_not_a_number_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        dumps({"score": float("nan")})


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("2026-08-20T18:02:31.770Z", "2026-08-20T18:02:31.77Z"),
        ("2026-08-20T18:01:45.000Z", "2026-08-20T18:01:45Z"),
        ("2026-08-20T20:01:45+02:00", "2026-08-20T18:01:45Z"),
        ("2026-08-20T20:01:45 02:00", "2026-08-20T18:01:45Z"),
        ("2026-08-20T18:01:45", "2026-08-20T18:01:45Z"),
        ("2026-08-20", "2026-08-20T00:00:00Z"),
    ],
)
def test_dates_are_read_as_utc_and_lose_trailing_zeros(text: str, rewritten: str) -> None:
    assert written(read(text)) == rewritten


def test_the_database_keeps_milliseconds() -> None:
    assert written(Ticks(read("2026-08-20T18:02:31.123Z") + 4567)) == "2026-08-20T18:02:31.1234567Z"
    assert written(stored(Ticks(read("2026-08-20T18:02:31.123Z") + 4567))) == "2026-08-20T18:02:31.123Z"


async def test_a_created_engine_shows_seven_digits_once(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    serval.clock.freeze()
    into_the_millisecond = serval.clock.now() % 10_000
    serval.clock.step((4567 - into_the_millisecond) / 10_000_000)
    made = await ruth.post(f"{API}/engines", json=NEW)
    first = made.json()["dateCreated"]
    assert re.search(r"\.\d{3}4567Z$", first)
    later = (await ruth.get(made.headers["location"])).json()["dateCreated"]
    assert later == written(stored(read_ticks(first)))
    assert "4567" not in later[-8:]
    build = await ruth.post(f"{made.headers['location']}/builds", json={})
    assert re.search(r"4567Z$", build.json()["dateCreated"])


def read_ticks(text: str) -> Ticks:
    return Ticks(read(text[:-5] + "Z") + int(text[-5:-1]))


async def test_null_members_are_left_out_and_doubles_look_like_integers(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(persisted=None))
    answer = await ruth.get(f"{API}/engines/{engine.id}")
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert "null" not in answer.text
    assert {"name", "isModelPersisted"}.isdisjoint(answer.json())
    assert '"confidence":0,' in answer.text
    serval.run_build(engine.id)
    [build] = (await ruth.get(f"{API}/engines/{engine.id}/builds")).json()
    assert isinstance(build["progress"], int)
    assert build["progress"] == build["percentCompleted"] == 1


@pytest.mark.parametrize(
    "path", ["/API/V1/Translation/Engines", "/api/v1.0/translation/engines", "/api/v1/translation/engines"]
)
async def test_routes_ignore_case_and_take_both_version_forms(ruth: httpx.AsyncClient, path: str) -> None:
    answer = await ruth.get(path)
    assert answer.status_code == 200
    assert answer.headers["api-supported-versions"] == "1.0"


async def test_a_verb_refused_by_routing_names_allowed_ones(ruth: httpx.AsyncClient) -> None:
    answer = await ruth.put(f"{API}/engines", json={})
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


async def test_engine_405_is_a_problem_without_allow(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    answer = await ruth.get(f"{API}/engines/{engine.id}/model-download-url")
    assert answer.status_code == 405
    assert "allow" not in answer.headers
    problem = answer.json()
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", problem.pop("traceId"))
    assert problem == {
        "type": "https://tools.ietf.org/html/rfc9110#section-15.5.6",
        "title": "Method Not Allowed",
        "status": 405,
    }


async def test_problems_come_under_both_media_types(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    serval.configure(long_poll_timeout=0.1)
    missing = await ruth.get(f"{API}/engines/{'0' * 24}")
    waited = await ruth.get(f"{API}/builds/next-finished")
    assert missing.headers["content-type"].startswith("application/problem+json")
    assert waited.headers["content-type"].startswith("application/json")


async def test_validation_names_the_fields_and_a_broken_rule_is_only_its_message(
    ruth: httpx.AsyncClient,
) -> None:
    answer = await ruth.post(f"{API}/engines", json={"name": "x", "unknown": 1})
    assert answer.status_code == 400
    assert set(answer.json()["errors"]) == {"sourceLanguage", "targetLanguage", "type"}
    body = {**NEW, "type": "statistical"}
    as_text = await ruth.post(f"{API}/engines", json=body)
    as_json = await ruth.post(f"{API}/engines", json=body, headers={"Accept": "application/json"})
    assert (as_text.status_code, as_json.status_code) == (400, 400)
    assert as_text.headers["content-type"].startswith("text/plain")
    assert as_json.json() == as_text.text


async def test_a_body_that_is_not_declared_as_json_is_415(ruth: httpx.AsyncClient) -> None:
    answer = await ruth.post(f"{API}/engines", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


async def test_an_unknown_path_is_404(serval: ServalStandIn) -> None:
    async with client(serval) as nobody:
        assert (await nobody.get("/api/v2/translation/engines")).status_code == 404
