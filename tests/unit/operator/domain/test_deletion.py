"""When an engine counts as deleted: lists prove nothing, masses are held."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from engine_operator.domain.deletion import (
    DeletionLedger,
    DeletionRule,
    DeletionVerdict,
    Lookup,
    Missing,
    Sweep,
    judge,
    suspects,
)
from engine_operator.domain.keys import EngineId
from tests.support.cases import case
from tests.unit.operator.domain.world import START

RULE = DeletionRule()
IDS = tuple(EngineId(f"{n:024x}") for n in range(40))
MINUTE = timedelta(minutes=1)


def sweep(
    minute: float,
    listed: Collection[EngineId] | None,
    lookup: Lookup,
    known: Collection[EngineId] = IDS,
    override: int | None = None,
) -> Sweep:
    """One sweep in which all engines that the list lacks give the same answer."""
    return Sweep(
        START + minute * MINUTE, listed, dict.fromkeys(suspects(known, listed), lookup), known, override
    )


def run(*sweeps: Sweep, ledger: DeletionLedger | None = None) -> DeletionVerdict:
    """Sweeps one after the other; the last verdict."""
    ledger = ledger or DeletionLedger({})
    for one in sweeps:
        verdict = judge(one, ledger, RULE)
        ledger = verdict.ledger
    return verdict


def what_a_list_lacks(sweep: Sweep, ledger: DeletionLedger, rule: DeletionRule) -> DeletionVerdict:
    """The naive rule."""
    return DeletionVerdict(suspects(sweep.known, sweep.listed), (), (), ledger)


@case("B12", breaks="engine_operator.domain.deletion:judge", naive=what_a_list_lacks)
def test_b12_empty_list_deletes_nothing() -> None:
    assert run(sweep(0, (), Lookup.UNCLEAR)).gone == ()
    assert run(sweep(0, (), Lookup.FOUND), sweep(20, (), Lookup.FOUND)).gone == ()


@case("B12", breaks="engine_operator.domain.deletion:judge", naive=what_a_list_lacks)
def test_b12_short_list_deletes_nothing_even_if_engines_answer_404() -> None:
    verdict = run(sweep(0, IDS[:3], Lookup.NOT_FOUND), sweep(20, IDS[:3], Lookup.NOT_FOUND))
    assert verdict.gone == ()
    assert len(verdict.held) == 37


@case("B12", breaks="engine_operator.domain.deletion:judge", naive=what_a_list_lacks)
def test_b12_other_credentials_delete_nothing_and_are_told() -> None:
    verdict = run(sweep(0, (), Lookup.FORBIDDEN), sweep(20, (), Lookup.FORBIDDEN))
    assert verdict.gone == ()
    assert set(verdict.not_ours) == set(IDS)


@pytest.mark.parametrize(
    ("tells", "sweeps", "gone"),
    [
        ("once", [(0, Lookup.NOT_FOUND)], False),
        ("twice too soon", [(0, Lookup.NOT_FOUND), (9, Lookup.NOT_FOUND)], False),
        ("twice over the grace time", [(0, Lookup.NOT_FOUND), (10, Lookup.NOT_FOUND)], True),
        ("found in between", [(0, Lookup.NOT_FOUND), (5, Lookup.FOUND), (11, Lookup.NOT_FOUND)], False),
        ("unclear in between", [(0, Lookup.NOT_FOUND), (5, Lookup.UNCLEAR), (11, Lookup.NOT_FOUND)], True),
        ("unclear at the end", [(0, Lookup.NOT_FOUND), (30, Lookup.UNCLEAR)], False),
        ("forbidden at the end", [(0, Lookup.NOT_FOUND), (30, Lookup.FORBIDDEN)], False),
    ],
)
def test_two_404s_over_the_grace_time_delete(
    tells: str, sweeps: list[tuple[int, Lookup]], gone: bool
) -> None:
    verdict = run(*(sweep(minute, IDS[1:], lookup) for minute, lookup in sweeps))
    assert (verdict.gone == IDS[:1]) is gone, tells


def test_engine_that_is_listed_again_starts_anew() -> None:
    verdict = run(
        sweep(0, IDS[1:], Lookup.NOT_FOUND), sweep(5, IDS, Lookup.FOUND), sweep(11, IDS[1:], Lookup.NOT_FOUND)
    )
    assert verdict.gone == ()


def test_no_list_changes_nothing() -> None:
    before = run(sweep(0, IDS[1:], Lookup.NOT_FOUND))
    after = run(sweep(60, None, Lookup.NOT_FOUND), ledger=before.ledger)
    assert (after.gone, after.ledger.missing) == ((), before.ledger.missing)


@pytest.mark.parametrize(
    ("engines", "absent", "goes"), [(40, 8, True), (40, 9, False), (5, 3, True), (5, 4, False)]
)
def test_guard_lets_the_greater_of_three_and_a_fifth_go(engines: int, absent: int, goes: bool) -> None:
    known = IDS[:engines]
    verdict = run(*(sweep(m, known[absent:], Lookup.NOT_FOUND, known) for m in (0, 11)))
    assert bool(verdict.gone) is goes
    assert bool(verdict.held) is not goes


def test_guard_counts_what_went_within_the_hour() -> None:
    first = run(*(sweep(m, IDS[8:], Lookup.NOT_FOUND) for m in (0, 11)))
    rest = IDS[8:]
    again = run(*(sweep(m, rest[1:], Lookup.NOT_FOUND, rest) for m in (12, 23)), ledger=first.ledger)
    assert again.held == rest[:1]
    later = run(sweep(72, rest[1:], Lookup.NOT_FOUND, rest), ledger=again.ledger)
    assert later.gone == rest[:1]


def test_override_releases_exactly_its_count_once() -> None:
    held = run(*(sweep(m, IDS[20:], Lookup.NOT_FOUND) for m in (0, 11)))
    assert run(sweep(12, IDS[20:], Lookup.NOT_FOUND, override=19), ledger=held.ledger).gone == ()
    released = run(sweep(12, IDS[20:], Lookup.NOT_FOUND, override=20), ledger=held.ledger)
    assert released.gone == IDS[:20]
    rest = IDS[20:]
    again = run(*(sweep(m, (), Lookup.NOT_FOUND, rest, 20) for m in (13, 24)), ledger=released.ledger)
    assert again.gone == ()
    assert len(again.held) == 20


def test_engine_of_a_persons_resource_stays_gone_and_counts_once() -> None:
    gone = run(*(sweep(m, IDS[1:], Lookup.NOT_FOUND) for m in (0, 11)))
    later = run(sweep(12, IDS[1:], Lookup.UNCLEAR), sweep(14, None, Lookup.UNCLEAR), ledger=gone.ledger)
    assert later.gone == IDS[:1]
    assert len(later.ledger.recent) == 1
    assert run(sweep(16, IDS, Lookup.FOUND), ledger=later.ledger).gone == ()


def test_resource_that_is_gone_is_forgotten() -> None:
    ledger = DeletionLedger({IDS[0]: Missing(START, START)})
    assert run(sweep(1, IDS[1:], Lookup.UNCLEAR, IDS[1:]), ledger=ledger).ledger.missing == {}
