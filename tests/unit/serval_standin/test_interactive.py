"""The four interactive paths: refused for nmt, answered for the other types."""

import httpx
import pytest

from tests.support.serval import EngineSpec, EngineType, ServalStandIn
from tests.unit.serval_standin.conftest import API

PAIR = {"sourceSegment": "uno", "targetSegment": "one", "sentenceStart": True}
PATHS = [("translate", "uno"), ("translate/3", "uno"), ("get-word-graph", "uno"), ("train-segment", PAIR)]


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize(("revision", "status"), [(0, 409), (1, 405)])
async def test_nmt_refuses_by_revision(
    serval: ServalStandIn, ruth: httpx.AsyncClient, path: str, body: object, revision: int, status: int
) -> None:
    engine = serval.add_engine(EngineSpec(revision=revision))
    answer = await ruth.post(f"{API}/engines/{engine.id}/{path}", json=body)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert "allow" not in answer.headers


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_the_order_of_checks_is_media_type_form_engine_owner(
    serval: ServalStandIn, ruth: httpx.AsyncClient, path: str, body: object
) -> None:
    foreign = serval.add_engine(EngineSpec(owner="boaz", revision=1))
    unknown = f"{API}/engines/{'0' * 24}/{path}"
    plain = {"Content-Type": "text/plain"}
    assert (await ruth.post(unknown, content=b"uno", headers=plain)).status_code == 415
    for bad in (b"", b"null", b"[1]"):
        headers = {"Content-Type": "application/json"}
        assert (await ruth.post(unknown, content=bad, headers=headers)).status_code == 400
    assert (await ruth.post(unknown, json=body)).status_code == 404
    assert (await ruth.post(f"{API}/engines/{foreign.id}/{path}", json=body)).status_code == 403


async def test_an_empty_segment_is_valid_and_n_must_be_a_number(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(type=EngineType.ECHO, target="en", revision=1))
    assert (await ruth.post(f"{API}/engines/{engine.id}/translate", json="")).status_code == 200
    assert (await ruth.post(f"{API}/engines/{engine.id}/translate/many", json="uno")).status_code == 400
    missing = await ruth.post(f"{API}/engines/{engine.id}/train-segment", json={"sentenceStart": True})
    assert set(missing.json()["errors"]) == {"sourceSegment", "targetSegment"}


async def test_echo_copies_and_its_graph_lacks_the_last_arc(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(type=EngineType.ECHO, target="en", revision=1))
    result = (await ruth.post(f"{API}/engines/{engine.id}/translate", json="la casa grande")).json()
    assert result["translation"] == "la casa grande"
    assert len(result["confidences"]) == len(result["sources"]) == len(result["targetTokens"]) == 3
    graph = (await ruth.post(f"{API}/engines/{engine.id}/get-word-graph", json="la casa grande")).json()
    assert graph["finalStates"] == [3]
    assert {arc["nextState"] for arc in graph["arcs"]} == {1, 2}


async def test_smt_graph_reaches_its_final_state(serval: ServalStandIn, ruth: httpx.AsyncClient) -> None:
    engine = serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    graph = (await ruth.post(f"{API}/engines/{engine.id}/get-word-graph", json="la casa")).json()
    assert graph["finalStates"] == [graph["arcs"][-1]["nextState"]]
    assert (await ruth.post(f"{API}/engines/{engine.id}/train-segment", json=PAIR)).content == b""


async def test_smt_without_a_model_inside_machine_is_500(
    serval: ServalStandIn, ruth: httpx.AsyncClient
) -> None:
    engine = serval.add_engine(EngineSpec(type=EngineType.SMT_TRANSFER, revision=1))
    serval.change_engine(engine.id, machine_revision=0)
    answer = await ruth.post(f"{API}/engines/{engine.id}/translate", json="la casa")
    assert (answer.status_code, answer.content) == (500, b"")
