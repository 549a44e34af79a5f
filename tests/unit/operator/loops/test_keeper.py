"""Who stays awake within a source's warm budget, from a survey and from what pods say of their last call."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from engine_operator.cluster.crs import engine_spec, source_spec
from engine_operator.cluster.reader import EngineObjects, Survey
from engine_operator.domain.capacity import WarmBudget
from engine_operator.domain.engine import SourceSpec
from engine_operator.loops.keeper import is_awake, keep

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
STORE = {"uri": "s3://bucket/artifacts", "secretRef": {"name": "store"}}


def source(places: int | None) -> SourceSpec:
    spec = {"url": "https://s.example", "credentialsSecretRef": {"name": "k"}, "artifactStore": STORE}
    found = source_spec({"metadata": {"name": "ruth", "namespace": "ns", "uid": "u"}, "spec": spec})
    return found if places is None else replace(found, warm_budget=WarmBudget(places))


def objects(name: str, woke: float | None = None, waits: bool = False, **spec: Any) -> EngineObjects:
    """An engine that woke so many hours ago, or sleeps."""
    reason = "QuotaExceeded" if waits else "RollingOut"
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": "2026-12-01T00:00:00Z",
    }
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"source": {"servalSource": "ruth", "engineId": "66c4"}, **spec},
        "status": {"conditions": [condition]},
    }
    return EngineObjects(body, pods=() if woke is None else (pod(name, woke),))


def pod(name: str, woke: float) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{name}-pod",
            "labels": {"serving.knative.dev/revision": f"{name}-predictor-00001"},
            "creationTimestamp": (NOW - timedelta(hours=woke)).isoformat(),
        },
        "status": {"podIP": f"10.0.0.{ord(name)}", "conditions": [{"type": "Ready", "status": "True"}]},
    }


async def kept(places: int | None, *engines: EngineObjects, used: dict[str, float] | None = None) -> set[str]:
    """`used`: hours since the last call, as pods tell it."""

    async def ask(address: str, model: str) -> datetime | None:
        assert address == f"10.0.0.{ord(model)}"
        assert used is not None, "nobody is to be asked"
        return NOW - timedelta(hours=used[model]) if model in used else None

    survey = Survey({str(one.engine["metadata"]["name"]): one for one in engines})
    specs = [engine_spec(one.engine) for one in engines]
    return set(await keep(source(places), specs, survey, ask, NOW))


async def test_without_a_budget_nobody_is_kept_and_nobody_asked() -> None:
    assert await kept(None, objects("a", 2), objects("b", 3)) == set()


async def test_while_there_is_room_for_all_no_pod_is_asked() -> None:
    assert await kept(2, objects("a", 2), objects("b", 3), objects("c")) == {"a", "b"}


async def test_the_engine_that_was_called_longest_ago_loses_its_place() -> None:
    engines = objects("a", 9), objects("b", 8), objects("c", 7)
    assert await kept(2, *engines, used={"a": 0.1, "b": 5, "c": 0.5}) == {"a", "c"}


async def test_a_pod_that_does_not_answer_counts_as_called_when_it_woke() -> None:
    engines = objects("a", 9), objects("b", 3), objects("c", 7)
    assert await kept(2, *engines, used={"a": 1, "c": 6}) == {"a", "b"}


async def test_an_engine_that_waits_for_room_evicts_one_and_a_pinned_one_stays() -> None:
    engines = objects("a", 9, keepWarm=True), objects("b", 8), objects("c", waits=True)
    assert await kept(2, *engines) == {"a"}
    assert await kept(3, *engines) == {"a", "b"}


def test_pods_on_their_way_out_keep_no_engine_awake() -> None:
    going = pod("a", 1)
    going["metadata"]["deletionTimestamp"] = NOW.isoformat()
    assert not is_awake(replace(objects("a"), pods=(going,)))
    assert is_awake(objects("a", 1))
