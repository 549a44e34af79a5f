"""Handed situations about watches, handlers and Events, where they are pure or need no cluster: A11, A16, A18."""

import asyncio
import secrets
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from engine_operator.cluster.client import ObjectRef
from engine_operator.cluster.engine_status import write_engine_status
from engine_operator.cluster.events import EventRecorder, Note
from engine_operator.cluster.resources import ENGINES, Json
from engine_operator.cluster.source_status import SourceStatus, write_source_status
from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.deletion import DeletionLedger, Missing
from engine_operator.domain.discovery import Skipped
from engine_operator.domain.engine import Protocol
from engine_operator.domain.observed import (
    AppliedStatus,
    Condition,
    ConditionStatus,
    EngineStatus,
    Failure,
    KnativeSettings,
    Phase,
    ServingStatus,
    TargetStatus,
    Usage,
    Wake,
)
from engine_operator.loops.board import Board
from engine_operator.loops.engines import EngineLoop, Rhythm
from engine_operator.loops.inbox import EngineKey, Inbox
from engine_operator.loops.look import Looked, Looker
from engine_operator.serval.events import Cursor
from tests.support.cases import case
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually
from tests.unit.operator.builders.test_crds import schema
from tests.unit.operator.domain.world import ENGINE_ID, World, of_type

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEY = World().key(3)
CONDITION = Condition("Available", ConditionStatus.TRUE, "Serving", "", NOON, 1)

FULL = EngineStatus(
    observed_generation=1,
    serving=ServingStatus(3, "http://e", Protocol.REST, "e", NOON, "e-00001", "0" * 64, KEY, "image"),
    target=TargetStatus(3, KEY, Phase.BACKING_OFF, 2, NOON, "again"),
    last_failure=Failure(3, Phase.CONVERTING, "BrokenArchive", "no gzip", NOON),
    applied=AppliedStatus("hash", "owned", True),
    cold_starts=(Wake(NOON, {"node": 1.0}),),
    usage=Usage("2026-11", 9, {"pod": NOON}),
    effective={"source": "en"},
    conditions=(CONDITION,),
)
FULL_SOURCE = SourceStatus(
    observed_generation=1,
    conditions=(CONDITION,),
    cursor=Cursor("b" * 24, ENGINE_ID, NOON),
    last_event=NOON,
    last_sweep=NOON,
    seen=3,
    skipped=(Skipped(ENGINE_ID, "name", "NeverTrained", "no build"),),
    skipped_counts={"NeverTrained": 1},
    ledger=DeletionLedger({ENGINE_ID: Missing(NOON, NOON, True)}, (NOON,), 4),
    installation="place",
    knative=KnativeSettings(True, True, 60, "{{.Name}}"),
)


def unknown(body: Any, node: Json, path: str = "") -> list[str]:
    """Keys of a body that its schema does not have: the API server drops them without a word."""
    if isinstance(body, list):
        return [found for one in body for found in unknown(one, node["items"], f"{path}[]")]
    if not isinstance(body, dict):
        return []
    found = []
    for key, value in body.items():
        child = node.get("properties", {}).get(key, node.get("additionalProperties"))
        found += [f"{path}.{key}"] if child is None else unknown(value, child, f"{path}.{key}")
    return found


def with_a_result(status: EngineStatus) -> Json:
    """As kopf does with what a handler returns."""
    return {"on_change": "done", "conditions": []}


@case("A11", breaks="engine_operator.cluster.engine_status:write_engine_status", naive=with_a_result)
def test_a11_the_status_of_an_engine_has_no_key_that_its_schema_lacks() -> None:
    written = write_engine_status(FULL)
    assert unknown(written, schema("translationengines")["properties"]["status"]) == []
    assert len(written) >= 9, "every part is there"


@case(
    "A11",
    breaks="engine_operator.cluster.source_status:write_source_status",
    naive=lambda _: {"sweep": "done"},
)
def test_a11_the_status_of_a_source_has_no_key_that_its_schema_lacks() -> None:
    written = write_source_status(FULL_SOURCE)
    assert unknown(written, schema("servalsources")["properties"]["status"]) == []
    assert len(written) >= 10, "every part is there"


A = EngineKey("ns", "a")


class Gate:
    """A looker whose looks end when the test says so."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began = 0
        self.at_once = 0
        self.most = 0

    async def look(self, key: EngineKey, collect: bool) -> Looked:
        self.began += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return Looked(phase=Phase.SERVING, revision=1, fingerprint=("same",))


def forgetful(self: EngineLoop) -> None:
    """As where an event that comes while its handler runs is taken for handled."""
    due, self._due = self._due, {}
    for key in due:
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._look(key))
            self._running[key].add_done_callback(partial(self._done, key))


@case("A16", breaks="engine_operator.loops.engines:EngineLoop._start_due", naive=forgetful)
async def test_a16_changes_that_come_during_a_look_lead_to_one_more_look() -> None:
    gate, inbox = Gate(), Inbox()
    rhythm = Rhythm(debounce=0.01, follow=0.05, collect=1000.0, trust=1000.0, longest_retry=0.2, turn=1.0)
    loop = EngineLoop(inbox, cast(Looker, gate), Board(), rhythm, parallel=4)
    running = asyncio.create_task(loop.run())
    inbox.touch_engine(A)
    await eventually(lambda: gate.began == 1)
    for _ in range(20):
        inbox.touch_engine(A)
        await asyncio.sleep(0)
    await eventually(lambda: inbox._engines == set(), interval=0.01)
    await asyncio.sleep(0.05)  # Past the debounce: the change is due while the look runs.
    gate.open.set()
    await eventually(lambda: gate.began >= 2 and loop.settled_with(A) == ("same",))
    assert gate.most == 1, "never two at once"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def at_every_look(ref: act.EngineRef, _: EngineStatus, new: EngineStatus) -> tuple[act.EmitEvent, ...]:
    """As handlers do that post what they did."""
    return (act.EmitEvent(ref, act.EventType.NORMAL, "Reconciled", ""),)


@case("A18", breaks="engine_operator.domain.transitions:events_between", naive=at_every_look)
def test_a18_one_event_for_each_transition_and_none_where_nothing_changed() -> None:
    world = World()
    world.serves()
    told = [event.reason for event in of_type(world.done, act.EmitEvent) if isinstance(event, act.EmitEvent)]
    assert sorted(told) == sorted(set(told)), "each once"
    assert {reasons.CONVERSION_STARTED, reasons.ROLLOUT_STARTED, reasons.PROMOTED} <= set(told)
    for _ in range(3):
        assert of_type(world.round(), act.EmitEvent) == []


async def another_each_time(self: EventRecorder, note: Note) -> None:
    """As recorders do that give each Event a random name."""
    name = f"{note.name}.{secrets.token_hex(8)}"
    await self._client.create(_events(), self._body(note, name, "2026-11-30T12:00:00.000000Z"))


def _events() -> Any:
    from engine_operator.cluster.resources import EVENTS

    return EVENTS


@case("A18", breaks="engine_operator.cluster.events:EventRecorder.tell", naive=another_each_time)
async def test_a18_a_failure_that_repeats_is_one_event_with_a_count() -> None:
    cluster = FakeCluster()
    note = Note(ENGINES, "ns", "e1", "uid", "Warning", "ConversionFailed", "revision 3: BrokenArchive")
    for instance in ("before", "before", "after-a-restart"):
        await EventRecorder(cluster.client(), instance).tell(note)
    told = [body for path, body in cluster.objects.items() if "/events/" in path]
    assert [one["series"]["count"] for one in told] == [3]
    assert await cluster.client().find(ObjectRef(ENGINES, "ns", "e1")) is None
