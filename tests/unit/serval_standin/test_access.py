"""Owners, keys, tokens and scopes."""

import hashlib
import re

import httpx
import pytest

from tests.support.serval import EngineSpec, ServalStandIn
from tests.support.serval.access import ALL_SCOPES
from tests.unit.serval_standin.conftest import API, client


async def test_each_owner_sees_only_own_engines(
    serval: ServalStandIn, ruth: httpx.AsyncClient, boaz: httpx.AsyncClient
) -> None:
    mine = {serval.add_engine(EngineSpec(owner="ruth")).id for _ in range(3)}
    his = serval.add_engine(EngineSpec(owner="boaz")).id
    assert {e["id"] for e in (await ruth.get(f"{API}/engines")).json()} == mine
    assert {e["id"] for e in (await boaz.get(f"{API}/engines")).json()} == {his}


async def test_foreign_engine_is_403_with_an_empty_body_and_unknown_is_404(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    foreign = serval.add_engine(EngineSpec(owner="boaz"))
    refused = await ruth.get(f"{API}/engines/{foreign.id}")
    assert (refused.status_code, refused.content) == (403, b"")
    for unknown in ("0" * 24, "nonsense"):
        missing = await ruth.get(f"{API}/engines/{unknown}")
        assert missing.status_code == 404
        assert missing.json()["title"] == "Not Found"


async def test_keys_have_the_documented_form_and_are_kept_only_as_hash(serval: ServalStandIn) -> None:
    key = serval.add_key()
    assert re.fullmatch(r"serval_[0-9a-f]{24}_[A-Za-z0-9_-]{43}", key)
    kept = list(serval.backend.access.keys.values())
    assert [k.digest for k in kept] == [hashlib.sha256(key.encode()).hexdigest().upper()]
    assert key not in repr(kept)


async def test_no_or_wrong_credential_is_401_with_a_challenge_only_for_tokens(serval: ServalStandIn) -> None:
    async with client(serval) as nobody, client(serval, key="serval_wrong") as wrong_key:
        for answer in (
            await nobody.get(f"{API}/engines"),
            await nobody.get(f"{API}/engines", headers={"Authorization": "Bearer x.y.z"}),
        ):
            assert (answer.status_code, answer.content) == (401, b"")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        answer = await wrong_key.get(f"{API}/engines")
    assert (answer.status_code, answer.content) == (401, b"")
    assert "www-authenticate" not in answer.headers


async def test_a_wrong_key_is_not_rescued_by_a_good_token(serval: ServalStandIn) -> None:
    async with client(serval, key="serval_wrong", token=serval.token()) as both:
        assert (await both.get(f"{API}/engines")).status_code == 401


async def test_client_credentials_give_a_token_that_acts_as_the_owner(serval: ServalStandIn) -> None:
    engine = serval.add_engine(EngineSpec(owner="naomi"))
    application = serval.add_client("naomi")
    form = {
        "grant_type": "client_credentials",
        "client_id": application.id,
        "client_secret": application.secret,
        "audience": "https://serval-api.org/",
    }
    async with client(serval) as caller:
        answer = (await caller.post("/oauth/token", data=form)).json()
        assert (await caller.post("/oauth/token", json=form)).status_code == 200
        assert (await caller.post("/oauth/token", data={**form, "client_secret": "no"})).status_code == 401
        assert (await caller.post("/oauth/token", data={**form, "audience": "other"})).status_code == 403
        assert (await caller.post("/oauth/token", data={**form, "grant_type": "x"})).status_code == 403
    assert (answer["token_type"], answer["expires_in"]) == ("Bearer", 86400)
    async with client(serval, token=answer["access_token"]) as naomi:
        assert [e["id"] for e in (await naomi.get(f"{API}/engines")).json()] == [engine.id]


async def test_tokens_end_by_the_stand_ins_clock_and_on_demand(serval: ServalStandIn) -> None:
    async with client(serval, token=serval.token(lifetime=60)) as caller:
        assert (await caller.get(f"{API}/engines")).status_code == 200
        serval.clock.step(61)
        assert (await caller.get(f"{API}/engines")).status_code == 401
    async with client(serval, token=serval.token()) as caller:
        serval.reject_tokens()
        assert (await caller.get(f"{API}/engines")).status_code == 401
    async with client(serval, token=serval.token()) as caller:
        assert (await caller.get(f"{API}/engines")).status_code == 200


CALLS = [
    ("GET", "/engines", "read:translation_engines"),
    ("POST", "/engines", "create:translation_engines"),
    ("PATCH", "/engines/{id}", "update:translation_engines"),
    ("DELETE", "/engines/{id}", "delete:translation_engines"),
    ("POST", "/engines/{id}/builds", "update:translation_engines"),
    ("POST", "/engines/{id}/current-build/cancel", "update:translation_engines"),
    ("GET", "/builds/next-finished", "read:translation_engines"),
    ("POST", "/engines/{id}/translate", "read:translation_engines"),
    ("POST", "/engines/{id}/train-segment", "update:translation_engines"),
]


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
async def test_missing_scope_is_403_before_anything_else_is_looked_at(
    serval: ServalStandIn, method: str, path: str, scope: str
) -> None:
    key = serval.add_key(scopes=ALL_SCOPES - {scope})
    async with client(serval, key) as caller:
        answer = await caller.request(method, API + path.format(id="0" * 24))
    assert (answer.status_code, answer.content) == (403, b"")


async def test_administrator_mints_lists_and_revokes_keys_with_a_token_only(serval: ServalStandIn) -> None:
    engine = serval.add_engine(EngineSpec(owner="boaz"))
    wanted = {"clientId": "boaz", "name": "reader", "scopes": ["read:translation_engines"]}
    async with client(serval, token=serval.token("admin")) as admin:
        made = await admin.post("/api/v1/api-keys", json=wanted)
        assert made.status_code == 201
        text, key_id = made.json()["key"], made.json()["id"]
        assert made.headers["location"] == f"/api/v1/api-keys/{key_id}"
        listed = (await admin.get("/api/v1/api-keys", params={"clientId": "boaz"})).json()
        assert [k["id"] for k in listed] == [key_id]
        assert "key" not in listed[0]
        forbidden = {**wanted, "scopes": ["read:api_keys"]}
        assert (await admin.post("/api/v1/api-keys", json=forbidden)).status_code == 400
        async with client(serval, text) as reader:
            assert [e["id"] for e in (await reader.get(f"{API}/engines")).json()] == [engine.id]
            assert (await reader.get("/api/v1/api-keys")).status_code == 403
            for _ in range(2):
                assert (await admin.delete(f"/api/v1/api-keys/{key_id}")).status_code == 200
            assert (await reader.get(f"{API}/engines")).status_code == 401
        assert (await admin.get(f"/api/v1/api-keys/{key_id}")).json()["isRevoked"] is True
        assert (await admin.get("/api/v1/api-keys/unknown")).status_code == 404


async def test_key_with_an_expiry_ends_then(serval: ServalStandIn) -> None:
    wanted = {"clientId": "boaz", "name": "short", "scopes": ["read:translation_engines"]}
    async with client(serval, token=serval.token("admin")) as admin:
        made = await admin.post("/api/v1/api-keys", json={**wanted, "expiresAt": "2100-01-01T00:00:00Z"})
    async with client(serval, made.json()["key"]) as reader:
        assert (await reader.get(f"{API}/engines")).status_code == 200
        serval.clock.step(100 * 366 * 86400)
        assert (await reader.get(f"{API}/engines")).status_code == 401


async def test_status_paths(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    async with client(serval) as nobody:
        assert (await nobody.get("/api/v1/status/ping")).json()["results"] == {}
        info = (await nobody.get("/api/v1/status/deployment-info")).json()
        assert info == {"deploymentVersion": "1.20.0", "aspNetCoreEnvironment": "Production"}
        assert (await nobody.get("/api/v1/status/health")).status_code == 401
    assert (await ruth.get("/api/v1/status/health")).json()["status"] == "Healthy"
