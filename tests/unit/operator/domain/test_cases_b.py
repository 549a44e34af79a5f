"""Handed situations about Serval's builds, as far as they are decisions: B8, B9, B10, B11."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.deletion import Lookup
from engine_operator.domain.desired import Round
from engine_operator.domain.discovery import Skipped, SourceView, plan_source
from engine_operator.domain.observed import Phase, TargetStatus
from engine_operator.domain.serval_facts import Existence
from engine_operator.errors import ServalRefusedCredentials
from engine_operator.loops.announce import skipped_notes, unfinished_notes
from engine_operator.serval.auth import ClientCredentials, ClientCredentialsAuth
from engine_operator.serval.client import ServalClient
from engine_operator.serval.dto import Build
from engine_operator.serval.events import Directive, Failure, PollPolicy, PollState, after_failure
from tests.support.cases import case
from tests.unit.operator.domain.test_discovery import ENGINES, IDS, SOURCE
from tests.unit.operator.domain.world import POLICY, START, World, of_type

UNSERVABLE = (
    replace(ENGINES[0], type="smt-transfer"),
    replace(ENGINES[1], type="echo"),
    replace(ENGINES[2], is_model_persisted=False),
    replace(ENGINES[3], model_revision=0),
)


@case("B8", breaks="engine_operator.domain.discovery:newly_skipped", naive=lambda _, new: new)
def test_b8_an_engine_that_cannot_be_served_gets_one_event_with_its_reason_and_nothing_else() -> None:
    found = plan_source(SourceView(SOURCE, UNSERVABLE), START, POLICY)
    assert found.actions == ()
    first = skipped_notes(SOURCE, (), found.skipped)
    assert [note.reason for note in first] == [
        reasons.ENGINE_TYPE_UNSUPPORTED,
        reasons.ENGINE_TYPE_UNSUPPORTED,
        reasons.MODEL_NOT_PERSISTED,
        reasons.NEVER_TRAINED,
    ]
    assert [str(i) in note.message for i, note in zip(IDS, first, strict=False)] == [True] * 4
    assert skipped_notes(SOURCE, found.skipped, found.skipped) == (), "nor again by the next sweep"
    another = Skipped(IDS[0], "", reasons.NEVER_TRAINED, "")
    assert len(skipped_notes(SOURCE, found.skipped, (another,))) == 1, "another reason is news"


@case("B8", breaks="engine_operator.loops.announce:unfinished_notes", naive=lambda *_: ())
def test_b8_a_build_that_ended_without_a_model_is_told_once_with_its_ending() -> None:
    body = {
        "id": "b" * 24,
        "engine": {"id": IDS[0], "url": "/x"},
        "state": "Faulted",
        "message": "out of luck",
    }
    (note,) = unfinished_notes(SOURCE, [Build.model_validate(body)])
    assert (note.type, note.reason) == ("Warning", reasons.NOT_COMPLETED)
    assert "Faulted: out of luck" in note.message


def whatever_serval_answers(target: TargetStatus, round_: Round) -> bool:
    """As where only a proven end counts."""
    return target.phase is not Phase.BACKING_OFF or (
        target.next_retry is not None and round_.now >= target.next_retry
    )


@case("B9", breaks="engine_operator.domain.attempts:due", naive=whatever_serval_answers)
def test_b9_for_an_engine_that_answers_404_a_conversion_that_ends_late_starts_no_service() -> None:
    world = World()
    world.settle()
    world.existence, world.wanted = Existence.MISSING, None
    world.converted(3)
    world.settle()
    assert world.service is None
    world.existence, world.wanted = Existence.PRESENT, 3
    world.settle()
    assert world.service is not None, "and it goes on if the 404 was a mistake"


@case("B9", breaks="engine_operator.domain.attempts:due", naive=whatever_serval_answers)
def test_b9_for_an_engine_that_answers_404_nothing_new_is_converted_and_what_serves_stays() -> None:
    world = World()
    world.serves(3)
    world.existence, world.wanted = Existence.MISSING, 4
    world.settle()
    assert not [job for job in world.jobs.values() if job.artifact_key.revision == 4]
    assert (world.serving(), world.service is not None) == (3, True)


@case("B9", breaks="engine_operator.domain.discovery:denied", naive=lambda *_: False)
@pytest.mark.parametrize("answer", [Lookup.NOT_FOUND, Lookup.FORBIDDEN])
def test_b9_a_list_that_is_older_than_an_engines_end_brings_nothing_back(answer: Lookup) -> None:
    view = SourceView(SOURCE, ENGINES[:2], lookups={IDS[0]: answer, IDS[1]: Lookup.FOUND})
    made = [one.name for one in plan_source(view, START, POLICY).actions if isinstance(one, act.ApplyEngine)]
    assert made == [f"e{IDS[1]}"]


@case("B10", breaks="engine_operator.domain.conversion:_told", naive=lambda *_: ())
@case("B10", breaks="engine_operator.domain.conversion:superseded_jobs", naive=lambda *_: ())
def test_b10_a_conversion_that_a_newer_build_overtakes_is_ended_and_told_once() -> None:
    world = World(wanted=4)
    world.settle()
    older = world.job().name
    world.wanted = 5
    world.settle()
    assert older not in world.jobs
    told = [one for one in of_type(world.done, act.EmitEvent) if isinstance(one, act.EmitEvent)]
    assert [one.message for one in told if one.reason == reasons.SUPERSEDED] == [
        "the conversion of revision 4 was ended: revision 5 is wanted"
    ]


@case("B10", breaks="engine_operator.domain.plan:_goal")
def test_b10_an_older_conversion_that_ends_later_changes_nothing() -> None:
    world = World(wanted=4)
    world.settle()
    world.serves(5)
    world.publish(4)
    before = world.writes
    world.settle()
    assert (world.serving(), world.writes) == (5, before)
    assert world.status.target is not None
    assert world.status.target.revision == 5


TOKENS = "https://identity.example/oauth/token"


class Identity:
    """Serval and its identity provider: tokens count up; Serval accepts some of them."""

    def __init__(self, *accepted: str) -> None:
        self.accepted = accepted
        self.given = 0
        self.asked = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        if str(request.url) == TOKENS:
            self.given += 1
            return httpx.Response(200, json={"access_token": f"t{self.given}", "expires_in": 3600})
        self.asked += 1
        good = request.headers["Authorization"].removeprefix("Bearer ") in self.accepted
        return httpx.Response(200, json=[]) if good else httpx.Response(401)

    def client(self) -> ServalClient:
        auth = ClientCredentialsAuth(ClientCredentials(TOKENS, "id", "secret"))
        return ServalClient("https://serval", auth, transport=httpx.MockTransport(self.answer))


async def never_again(
    self: ClientCredentialsAuth, request: httpx.Request
) -> AsyncGenerator[httpx.Request, httpx.Response]:
    """As a client does that keeps its token until it expires by its own word."""
    if not self._token:
        await self._accept((yield await self._ask()))
    request.headers["Authorization"] = f"Bearer {self._token}"
    yield request


@case("B11", breaks="engine_operator.serval.auth:ClientCredentialsAuth.async_auth_flow", naive=never_again)
async def test_b11_a_token_that_is_refused_is_renewed_once_and_no_more() -> None:
    serval = Identity("t1")
    client = serval.client()
    await client.engines()
    serval.accepted = ("t2",)
    assert await client.engines() == []
    assert serval.given == 2
    serval.accepted = ()
    with pytest.raises(ServalRefusedCredentials):
        await client.engines()
    assert (serval.given, serval.asked) == (3, 5), "one refresh, then it is the caller's to back off"


async def each_for_itself(
    self: ClientCredentialsAuth, request: httpx.Request
) -> AsyncGenerator[httpx.Request, httpx.Response]:
    """Right for one call at a time."""
    if not self._token:
        await self._accept((yield await self._ask()))
    request.headers["Authorization"] = f"Bearer {self._token}"
    response = yield request
    if response.status_code == 401:
        await self._accept((yield await self._ask()))
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


@case(
    "B11", breaks="engine_operator.serval.auth:ClientCredentialsAuth.async_auth_flow", naive=each_for_itself
)
async def test_b11_calls_that_are_refused_at_the_same_time_share_one_renewal() -> None:
    serval = Identity("t1")

    async def answer(request: httpx.Request) -> httpx.Response:
        found = serval.answer(request)
        # Every call is under way before the first is answered.
        await asyncio.sleep(0.01)
        return found

    auth = ClientCredentialsAuth(ClientCredentials(TOKENS, "id", "secret"))
    client = ServalClient("https://serval", auth, transport=httpx.MockTransport(answer))
    assert await asyncio.gather(*(client.engines() for _ in range(4))) == [[]] * 4
    assert serval.given == 1
    serval.accepted = ("t2",)
    assert await asyncio.gather(*(client.engines() for _ in range(4))) == [[]] * 4
    assert serval.given == 2


def ever_longer(state: PollState, failure: Failure, policy: PollPolicy, jitter: float) -> Directive:
    """Exponential without a bound."""
    again = replace(state, failures=state.failures + 1)
    return Directive(again, wait=policy.first_retry * 2**state.failures)


@case("B11", breaks="engine_operator.serval.events:after_failure", naive=ever_longer)
@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_b11_serval_that_is_back_after_five_minutes_is_noticed_within_ten_seconds(jitter: float) -> None:
    policy, state, now = PollPolicy(), PollState(), 0.0
    waits: list[float] = []
    while now < 300:
        directive: Any = after_failure(state, Failure.UNREACHABLE, policy, jitter)
        state, now = directive.state, now + directive.wait
        waits.append(directive.wait)
    assert waits[0] < waits[1] < waits[2], "it backs off"
    assert max(waits) <= 10
