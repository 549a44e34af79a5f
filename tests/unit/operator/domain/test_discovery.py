"""What a sweep of a source makes and deletes."""

from dataclasses import replace
from datetime import timedelta

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.deletion import DeletionLedger, Lookup
from engine_operator.domain.discovery import SourceView, plan_source
from engine_operator.domain.engine import EngineSpec, ObjectStore, SourceRef, SourceSpec
from engine_operator.domain.keys import EngineId
from engine_operator.domain.serval_facts import Existence, ServalEngine
from tests.unit.operator.domain.world import POLICY, START

SOURCE = SourceSpec(
    "main", "live", "uid-s", "https://serval.example", "key", ObjectStore("s3://artifacts/live")
)
IDS = [EngineId(f"{n:024x}") for n in range(1, 6)]
ENGINES = tuple(ServalEngine(i, "nmt", 2, True) for i in IDS)


def resource(engine_id: EngineId, operator_made: bool = True, name: str | None = None) -> EngineSpec:
    return EngineSpec(
        name or f"e{engine_id}",
        "live",
        f"uid-{engine_id}",
        SourceRef("main", engine_id),
        operator_made=operator_made,
    )


def test_each_servable_engine_gets_one_resource_named_by_its_id() -> None:
    found = plan_source(SourceView(SOURCE, ENGINES), START, POLICY)
    assert [a.name for a in found.actions if isinstance(a, act.ApplyEngine)] == [f"e{i}" for i in IDS]
    assert found.servable == 5


def test_engine_with_a_persons_resource_gets_no_second_one() -> None:
    view = SourceView(SOURCE, ENGINES[:1], engines=(resource(IDS[0], False, "spanish"),))
    assert plan_source(view, START, POLICY).actions == ()


def test_engines_that_cannot_be_served_are_counted_not_made() -> None:
    listed = (
        replace(ENGINES[0], is_model_persisted=False),
        replace(ENGINES[1], type="echo"),
        replace(ENGINES[2], model_revision=0),
        ENGINES[3],
    )
    view = SourceView(SOURCE, listed, owned_elsewhere=frozenset({IDS[3]}))
    found = plan_source(view, START, POLICY)
    assert found.actions == ()
    assert [s.reason for s in found.skipped] == [
        reasons.MODEL_NOT_PERSISTED,
        reasons.ENGINE_TYPE_UNSUPPORTED,
        reasons.NEVER_TRAINED,
        reasons.ENGINE_OWNED_ELSEWHERE,
    ]


def test_namespace_without_room_makes_no_resource_and_says_so() -> None:
    source = replace(SOURCE, namespace="n" * 21)
    found = plan_source(SourceView(source, ENGINES[:1]), START, POLICY)
    assert (found.actions, found.skipped[0].reason) == ((), reasons.NAME_TOO_LONG)


def test_gone_engine_loses_an_operator_made_resource_and_keeps_a_persons() -> None:
    engines = (resource(IDS[0]), resource(IDS[1], False, "mine"), *(resource(i) for i in IDS[2:]))
    listed = ENGINES[2:]
    lookups = {IDS[0]: Lookup.NOT_FOUND, IDS[1]: Lookup.NOT_FOUND}
    ledger = DeletionLedger({})
    for minute in (0, 11):
        view = SourceView(SOURCE, listed, lookups, engines, ledger=ledger)
        found = plan_source(view, START + timedelta(minutes=minute), POLICY)
        ledger = found.deletion.ledger
    assert [a.engine_id for a in found.actions if isinstance(a, act.DeleteEngine)] == [IDS[0]]
    assert found.existence[IDS[1]] is Existence.GONE
    assert found.existence[IDS[2]] is Existence.PRESENT


def test_missing_list_makes_and_deletes_nothing() -> None:
    found = plan_source(SourceView(SOURCE, None, engines=(resource(IDS[0]),)), START, POLICY)
    assert found.actions == ()
    assert found.existence == {IDS[0]: Existence.UNKNOWN}


def test_foreign_engine_is_told_and_kept() -> None:
    view = SourceView(SOURCE, (), {IDS[0]: Lookup.FORBIDDEN}, (resource(IDS[0]),))
    found = plan_source(view, START, POLICY)
    assert (found.actions, found.existence[IDS[0]]) == ((), Existence.NOT_OURS)
