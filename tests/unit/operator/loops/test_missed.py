"""The figure "found by sweep, missed by poll": what counts, what does not, and what a restart knows."""

from typing import Any

from engine_operator.cluster.reader import EngineObjects, Survey
from engine_operator.domain.keys import EngineId
from engine_operator.domain.serval_facts import ServalEngine
from engine_operator.loops.missed import Missed, revisions_before
from tests.support.cases import case

X, Y, Z = (EngineId(f"66c4a1f09d3e5b7a8c0f1e2{n}") for n in range(3))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def forgets(self: Missed, known: object) -> None:
    """The first sweep after a start compares with nothing."""
    self._known = None


def begun(known: dict[EngineId, int]) -> tuple[Missed, Clock]:
    clock = Clock()
    missed = Missed(60.0, clock)
    missed.begin(known)
    return missed, clock


@case("B1", breaks="engine_operator.loops.missed:Missed.begin", naive=forgets)
def test_b1_what_finished_while_nobody_polled_is_missed_once_the_poll_had_its_time() -> None:
    missed, clock = begun({X: 1, Y: 0})
    assert missed.found({X: 1, Y: 1}, ()) == {}
    clock.now = 59.0
    assert missed.found({X: 1, Y: 1}, ()) == {}
    clock.now = 61.0
    assert missed.found({X: 1, Y: 1}, ()) == {Y: 1}
    clock.now = 500.0
    assert missed.found({X: 1, Y: 1}, ()) == {}, "counted once"


def test_what_a_poll_announces_before_or_after_the_sweep_is_not_missed() -> None:
    missed, clock = begun({X: 1, Y: 1})
    assert missed.found({X: 2, Y: 2}, [X]) == {}
    clock.now = 30.0
    assert missed.found({X: 2, Y: 2}, [Y]) == {}
    clock.now = 100.0
    assert missed.found({X: 2, Y: 2}, ()) == {}


def engine(id: EngineId, target: int | None, **spec: Any) -> EngineObjects:
    key = f"{id}/r{target}/ct2v1-1a2b3c4d"
    status = {"target": {"revision": target, "artifactKey": key, "phase": "Serving"}} if target else {}
    return EngineObjects(
        {
            "metadata": {"name": f"e{id}", "namespace": "ns", "uid": id},
            "spec": {"source": {"servalSource": "ruth", "engineId": id}, **spec},
            "status": status,
        }
    )


def listed(id: EngineId, revision: int) -> ServalEngine:
    return ServalEngine(id, "nmt", revision, True)


def test_a_start_compares_with_what_the_statuses_knew() -> None:
    survey = Survey({"x": engine(X, 1), "y": engine(Y, 2, pinned=2)})
    now = [listed(X, 3), listed(Y, 5), listed(Z, 1)]
    assert revisions_before(now, [Z], survey, polled=True) == {X: 1, Y: 5, Z: 0}
    assert revisions_before(now, [], survey, polled=True)[Z] == 1, "not servable, so nobody waits for it"
    assert revisions_before(now, [Z], survey, polled=False) == {X: 3, Y: 5, Z: 1}, "before the first poll"
