"""The decision: what to do for one engine, given what is wanted and what is.

Pure, total and idempotent: the same facts give the same actions, and facts in which everything is as wanted give
none. It refuses to wait, to retry and to remember; time comes in as `now`, memory as `status`.

Reading order: `plan` here, then `conversion`, `rollout`, `serving`, and `conditions` for what is told.
"""

from dataclasses import replace
from datetime import datetime

from engine_operator.domain.actions import Action, DeleteInferenceService, WriteStatus
from engine_operator.domain.attempts import target_of
from engine_operator.domain.collect import collect
from engine_operator.domain.conditions import conditions_of
from engine_operator.domain.conversion import convert, superseded_jobs
from engine_operator.domain.desired import Desired as Desired
from engine_operator.domain.desired import Goal, Round, Stage, effective_summary
from engine_operator.domain.observed import EngineStatus, Known, ManifestFact, Observed, Phase
from engine_operator.domain.policy import Policy
from engine_operator.domain.rollout import maintain, roll_out
from engine_operator.domain.serval_facts import Existence
from engine_operator.domain.serving import serving_of
from engine_operator.domain.swaps import make_way, swap_between
from engine_operator.domain.transitions import events_between
from engine_operator.domain.usage import accounted, changed
from engine_operator.domain.wakes import told_wakes
from engine_operator.domain.warm import hold, warm_until


def plan(desired: Desired, observed: Observed, now: datetime, policy: Policy) -> list[Action]:
    """Decide the actions for one engine, in the order in which they are to be done; WriteStatus comes last."""
    if observed.deleting:
        return []
    round_ = Round(desired, observed, now, policy)
    stage = _decide(round_)
    status = replace(stage.status, conditions=conditions_of(desired, observed, stage.status, now, policy))
    actions = [*stage.actions, *events_between(desired.ref, observed.status, status)]
    status = _billed(status, stage, round_)
    if status != observed.status or stage.applies:
        actions.append(WriteStatus(desired.ref, status))
    return actions


def _billed(status: EngineStatus, stage: Stage, round_: Round) -> EngineStatus:
    """Keep the account of pod seconds where the status is written anyway, or a pod came or went."""
    before = round_.observed.status
    usage = accounted(before.usage, round_.observed.pods, round_.now)
    due = status != before or stage.applies or changed(before.usage, usage)
    return replace(status, usage=usage) if due else status


def _decide(round_: Round) -> Stage:
    """Choose the stage that this engine is in."""
    desired, observed = round_.desired, round_.observed
    serving = serving_of(round_)
    status = replace(
        observed.status,
        observed_generation=desired.engine.generation,
        serving=serving,
        last_swap=swap_between(observed.status, serving, observed),
        effective=effective_summary(desired, observed.status.effective),
        warm_until=warm_until(round_),
        cold_starts=told_wakes(round_),
    )
    if desired.engine.paused:
        return Stage(status)
    if desired.engine.suspended:
        return _empty(status, "spec.suspended is true", round_)
    if desired.existence is Existence.GONE:
        return _empty(replace(status, serving=None), "the engine is gone in Serval", round_)
    goal = _goal(round_)
    if goal is None:
        return Stage(replace(status, target=None), (*superseded_jobs(None, round_), *hold(status, round_)))
    stage = _work(goal, status, round_)
    done = (*stage.actions, *make_way(round_), *hold(stage.status, round_), *collect(stage.status, round_))
    return replace(stage, actions=(*superseded_jobs(goal, round_), *done))


def _goal(round_: Round) -> Goal | None:
    wanted = round_.wanted
    if wanted is None:
        return None
    return Goal(wanted, round_.desired.key(wanted), round_.observed.manifest)


def _empty(status: EngineStatus, why: str, round_: Round) -> Stage:
    """Remove every workload; artifacts stay for a resume, or go with the resource itself."""
    actions: list[Action] = list(superseded_jobs(None, round_))
    service = round_.observed.service
    if service is not None and not service.deleting:
        actions.append(DeleteInferenceService(round_.desired.ref, why))
    return Stage(replace(status, target=None, applied=None), tuple(actions))


def _work(goal: Goal, status: EngineStatus, round_: Round) -> Stage:
    """Convert or roll out; a manifest that the serving revision vouches for is never converted again blindly."""
    target = target_of(goal, round_)
    manifest = _vouched(goal, status, round_)
    if manifest.presence is Known.PRESENT:
        return roll_out(replace(goal, manifest=manifest), target, status, round_)
    stage = convert(goal, target, status, round_)
    return replace(stage, actions=(*stage.actions, *maintain(goal, stage.status, round_)))


def _vouched(goal: Goal, status: EngineStatus, round_: Round) -> ManifestFact:
    """While the store is silent, a running service goes on being looked after by what it names itself."""
    service = round_.observed.service
    if goal.manifest.presence is not Known.UNKNOWN or service is None or service.artifact_key != goal.key:
        return goal.manifest
    settled = status.target is not None and status.target.phase is Phase.SERVING
    return ManifestFact(Known.PRESENT, service.manifest_sha256) if settled else goal.manifest
