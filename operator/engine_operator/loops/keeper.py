"""Which engines of a source stay awake although nobody calls: asks their pods when they were last used.

Pods are asked only where the budget does not have a place for everybody who is awake, and straight, past Knative's
proxy, so that asking keeps nobody awake.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from engine_operator.cluster.engine_status import read_conditions
from engine_operator.cluster.facts import pod_state
from engine_operator.cluster.reader import EngineObjects, Survey
from engine_operator.domain import reasons
from engine_operator.domain.capacity import Resident, kept_awake, taken_by
from engine_operator.domain.engine import Effective, EngineSpec, SourceSpec
from engine_operator.domain.observed import PodState
from engine_operator.domain.room import Standing

LastUsed = Callable[[str, str], Awaitable[datetime | None]]
"""Given a pod's address and its model's name, when it was last called; None if that can't be learned."""


async def nobody_knows(_: str, __: str) -> datetime | None:
    """For those who may not, or need not, ask pods."""
    return None


async def keep(
    source: SourceSpec, engines: Iterable[EngineSpec], survey: Survey, ask: LastUsed, now: datetime
) -> frozenset[str]:
    """Names of the engines to keep awake within the source's warm budget; none where it has no budget."""
    budget = source.warm_budget
    if budget is None:
        return frozenset()
    found = [(one, _pods(survey.engines[one.name])) for one in engines if one.name in survey.engines]
    awake = sum(bool(pods) for _, pods in found)
    scarce = awake > budget.engines
    residents = [await _resident(engine, pods, ask if scarce else nobody_knows) for engine, pods in found]
    waiting = sum(waits_for_room(survey.engines[one.name]) for one, _ in found)
    return kept_awake(residents, budget, waiting, now)


def standing_of(engine: EngineSpec, objects: EngineObjects, effective: Effective) -> Standing:
    """Where an engine stands, as far as a survey tells: what it waits for is known when it is looked at."""
    return Standing(engine.priority, taken_by(len(_pods(objects)), effective.gpus_per_pod))


def waits_for_room(objects: EngineObjects) -> bool:
    """Whether its status says that the quota holds it up."""
    conditions = read_conditions(objects.engine.get("status") or {})
    return any(one.reason == reasons.QUOTA_EXCEEDED for one in conditions)


def is_awake(objects: EngineObjects) -> bool:
    """Whether it has a predictor's pod."""
    return bool(_pods(objects))


def _pods(objects: EngineObjects) -> list[PodState]:
    states = (pod_state(one) for one in objects.pods)
    return [one for one in states if one.knative_revision and not one.terminating]


async def _resident(engine: EngineSpec, pods: list[PodState], ask: LastUsed) -> Resident:
    told = [await ask(pod.address, engine.name) for pod in pods if pod.ready and pod.address]
    return Resident(
        engine.name,
        awake_since=min((pod.created for pod in pods), default=None),
        last_used=max((one for one in told if one is not None), default=None),
        pinned=engine.keep_warm and not engine.suspended,
    )
