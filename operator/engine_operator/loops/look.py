"""One look at one engine: gather, plan, carry out, and say when to look again.

A failure that says something about the engine (its model is not to be had, the API refuses its service) goes into its
status with a back-off. One that says nothing about it (an API, a webhook or Serval that is away) is waited out without
a trace, since everything of a look can be repeated.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from engine_operator import metrics
from engine_operator.cluster.crs import engine_spec
from engine_operator.cluster.engine_status import read_engine_status
from engine_operator.cluster.reader import ClusterReader, EngineObjects
from engine_operator.domain.actions import Action, HoldRevision, WriteStatus
from engine_operator.domain.attempts import record_error
from engine_operator.domain.capacity import Taken
from engine_operator.domain.churn import Churn
from engine_operator.domain.conditions import conditions_of, held_up
from engine_operator.domain.desired import Desired, Round
from engine_operator.domain.engine import EngineSpec, SourceRef
from engine_operator.domain.lag import LagClock
from engine_operator.domain.observed import EngineStatus, Phase, ProcessFailure
from engine_operator.domain.plan import plan
from engine_operator.domain.policy import Policy
from engine_operator.domain.rollout import outdated, place_of
from engine_operator.domain.room import Standing, standing
from engine_operator.domain.transitions import events_between, retried
from engine_operator.domain.warm import wanted_warmth
from engine_operator.errors import (
    ClusterBusy,
    ClusterUnreachable,
    LeaseLost,
    OperatorError,
    Outdated,
    ServalMisbehaved,
    ServalUnreachable,
    StoreUnreachable,
    UsageError,
    WebhookFailed,
)
from engine_operator.executor import Executor, Outcome
from engine_operator.loops.inbox import EngineKey, SourceKey
from engine_operator.observe import Observer, Surroundings, desired_of

log = logging.getLogger(__name__)

PASSING = (
    ClusterBusy,
    ClusterUnreachable,
    Outdated,
    ServalMisbehaved,
    ServalUnreachable,
    StoreUnreachable,
    WebhookFailed,
)
"""Failures that say nothing about the engine that they happened at."""


class Neighbourhood(Protocol):
    """What engines share, as the sweeps keep it up to date."""

    async def around(self, engine: EngineSpec) -> Surroundings | None:
        """None while nothing is known yet: the source was not swept since the start."""

    def executor(self, engine: EngineSpec) -> Executor:
        """What carries out actions for this engine."""


class Others(Protocol):
    """What all engines do right now."""

    def busy(self, phase: Phase, but: EngineKey) -> int:
        """Engines in a phase, but for one."""

    def enters(self, engine: EngineKey, phase: Phase | None) -> None:
        """An engine is in a phase from now on; told before anything of it is carried out."""

    def stands(self, engine: EngineKey, source: SourceKey | None, standing: Standing) -> None:
        """What an engine has and waits for, from now on; told at the same time."""

    def taken(self, source: SourceKey | None, but: EngineKey, priority: int) -> Taken:
        """What the engines of a source have, but for one; of those above its priority also what they wait for."""

    def ahead(self, phase: Phase, priority: int) -> int:
        """Engines of a higher priority that wait for a place of this phase."""


@dataclass(frozen=True)
class Looked:
    """What became of a look."""

    phase: Phase | None = None
    aside: bool = False
    """Its rollout waits for a first caller, and takes no place from the others meanwhile."""
    acted: bool = False
    """Something was changed: look again soon."""
    passing: OperatorError | None = None
    """A failure that says nothing about the engine."""
    moving: bool = False
    """A pod or the service is on its way up or down."""
    next_retry: datetime | None = None
    changes: datetime | None = None
    """When a warm window opens or closes."""
    revision: int | None = None
    """The revision that serves."""
    held: bool = False
    """It serves, but not as people want it now: it waits for a place among those that roll out."""
    fingerprint: tuple[object, ...] | None = None
    """Of the facts with which there was nothing to do."""


class Looker:
    """Looks at engines, one at a time per call."""

    def __init__(
        self,
        reader: ClusterReader,
        observer: Observer,
        neighbourhood: Neighbourhood,
        others: Others,
        policy: Policy,
    ) -> None:
        self._reader = reader
        self._observer = observer
        self._neighbourhood = neighbourhood
        self._others = others
        self._policy = policy
        self._churn = Churn()
        self.lag = LagClock()
        """Told of finished builds by the polls."""

    async def look(self, key: EngineKey, collect: bool) -> Looked | None:
        """None if there is no such engine any more, or nothing is known of its source yet.

        `collect` also lists its artifacts for garbage. Raises LeaseLost, ClusterError.
        """
        objects = await self._reader.engine(key.namespace, key.name)
        if objects is None:
            return None
        gathered = await self.gather(objects, collect)
        if gathered is None:
            return None
        round_, around = gathered
        actions = plan(round_.desired, round_.observed, round_.now, self._policy)
        planned = _planned(actions, round_)
        metrics.PLAN_ACTIONS.observe(len(actions))
        self._others.enters(key, place_of(planned, round_.observed.service))
        self._others.stands(key, source_of(round_.desired.engine), standing(planned, actions, round_))
        executor = self._neighbourhood.executor(round_.desired.engine)
        outcome = await executor.run(actions)
        if outcome.error is not None:
            return await self._failed(outcome, executor, round_, planned)
        if (reason := retried(round_.observed.status, planned)) is not None:
            metrics.RETRIES.labels(reason).inc()
        self._count(key, round_, planned)
        looked = _looked(round_, planned, actions)
        return (
            looked if actions else replace(looked, fingerprint=fingerprint(objects, round_.desired, around))
        )

    async def glance(self, key: EngineKey, known: EngineObjects) -> Looked | None:
        """What a survey saw, judged as it is; None where there is something to do, which asks for a look of its own.

        Raises ClusterError.
        """
        gathered = await self.gather(known)
        if gathered is None:
            return None
        round_, around = gathered
        if plan(round_.desired, round_.observed, round_.now, self._policy):
            return None
        status = round_.observed.status
        metrics.PLAN_ACTIONS.observe(0)
        self._others.enters(key, place_of(status, round_.observed.service))
        self._others.stands(key, source_of(round_.desired.engine), standing(status, (), round_))
        self._count(key, round_, status)
        seen = fingerprint(known, round_.desired, around)
        return replace(_looked(round_, status, ()), fingerprint=seen)

    def _count(self, key: EngineKey, round_: Round, planned: EngineStatus) -> None:
        """Figures of a look that went well."""
        engine, build = (key.namespace, key.name), (key.namespace, str(round_.desired.engine.engine_id))
        statuses = round_.observed.status, planned
        for phase, seconds in self.lag.follow(engine, build, statuses, round_.now).items():
            metrics.LAG.labels(phase).observe(seconds)
        foreign = self._churn.foreign(engine, round_.observed)
        if foreign:
            metrics.FOREIGN_REVISIONS.labels(key.namespace).inc(len(foreign))
            log.warning("%s/%s: no write of ours led to %s", *engine, ", ".join(foreign))

    async def gather(
        self, objects: EngineObjects, collect: bool = False
    ) -> tuple[Round, Surroundings] | None:
        """Gather everything that a plan needs; None while that is not known."""
        try:
            spec = engine_spec(objects.engine)
        except UsageError as error:
            log.warning("a TranslationEngine can't be read: %s", error)
            return None
        around = await self._neighbourhood.around(spec)
        if around is None:
            return None
        status = read_engine_status(objects.engine.get("status") or {})
        desired = desired_of(spec, status, around)
        observed = await self._observer.observed(objects, desired, status, around)
        if collect:
            observed = replace(observed, stored=await self._observer.stored(around.storage, spec.engine_id))
        key = EngineKey(spec.namespace, spec.name)
        # No await between counting and planning: two looks must not both take the last free place.
        observed = replace(
            observed,
            busy_rollouts=self._others.busy(Phase.ROLLING_OUT, key),
            busy_conversions=self._others.busy(Phase.CONVERTING, key),
            ahead_rollouts=self._others.ahead(Phase.ROLLING_OUT, spec.priority),
            ahead_conversions=self._others.ahead(Phase.CONVERTING, spec.priority),
            taken=self._others.taken(source_of(spec), key, spec.priority),
        )
        return Round(desired, observed, datetime.now(UTC), self._policy), around

    async def _failed(
        self, outcome: Outcome, executor: Executor, round_: Round, planned: EngineStatus
    ) -> Looked:
        error, engine = outcome.error, round_.desired.engine
        assert error is not None, "called for failures only"
        if isinstance(error, LeaseLost):
            raise error
        where = f"{engine.namespace}/{engine.name}"
        if isinstance(error, PASSING):
            log.info("%s: %s failed and is tried again: %s", where, type(outcome.failed).__name__, error)
            if isinstance(error, WebhookFailed):
                await _tell(error, executor, round_)
            return Looked(passing=error)
        log.warning("%s: %s failed: %s", where, type(outcome.failed).__name__, error)
        status = record_error(planned, ProcessFailure(error.reason, str(error)[:800]), round_)
        told = conditions_of(round_.desired, round_.observed, status, round_.now, round_.policy)
        status = replace(status, conditions=told)
        ref = round_.desired.ref
        if status != round_.observed.status:
            await executor.run(
                [*events_between(ref, round_.observed.status, status), WriteStatus(ref, status)]
            )
        return Looked(
            phase=status.target.phase if status.target else None,
            aside=_aside(status, round_),
            next_retry=status.target.next_retry if status.target else None,
            passing=error if status.target is None or status.target.phase is not Phase.BACKING_OFF else None,
        )


async def _tell(error: WebhookFailed, executor: Executor, round_: Round) -> None:
    """Name the webhook that holds the engine up, once: what it needs is a person's look at something else."""
    before = round_.observed.status
    said = f"the admission webhook {error.webhook} does not answer; tried again until it does"
    status = held_up(before, round_, error.reason, said)
    if status != before:
        await executor.run([WriteStatus(round_.desired.ref, status)])


def _planned(actions: Sequence[Action], round_: Round) -> EngineStatus:
    """The status that the plan leads to."""
    written = next((one for one in actions if isinstance(one, WriteStatus)), None)
    return written.status if written else round_.observed.status


def _aside(status: EngineStatus, round_: Round) -> bool:
    return status.target is not None and place_of(status, round_.observed.service) is not status.target.phase


def _looked(round_: Round, status: EngineStatus, actions: Sequence[Action]) -> Looked:
    service = round_.observed.service
    moving = any(not pod.ready for pod in round_.observed.pods) or (service is not None and service.deleting)
    return Looked(
        phase=status.target.phase if status.target else None,
        aside=_aside(status, round_),
        acted=any(not isinstance(action, HoldRevision) for action in actions),
        moving=moving,
        next_retry=status.target.next_retry if status.target else None,
        changes=wanted_warmth(round_).changes,
        revision=status.serving.revision if status.serving else None,
        held=not actions and outdated(status, round_),
    )


def source_of(engine: EngineSpec) -> SourceKey | None:
    """Whose quota an engine counts in; a person's model counts in none."""
    if isinstance(engine.origin, SourceRef):
        return SourceKey(engine.namespace, engine.origin.serval_source)
    return None


def fingerprint(objects: EngineObjects, desired: Desired, around: Surroundings) -> tuple[object, ...]:
    """All facts that a survey and a sweep see; as long as they stay, another look would find nothing to do."""
    context = around.context
    return (
        objects.fingerprint(),
        desired.existence,
        desired.model_revision,
        desired.verdict,
        desired.effective,
        around.storage.problem,
        desired.quota,
        (context.problem, context.knative, desired.engine.name in context.kept) if context else None,
    )
