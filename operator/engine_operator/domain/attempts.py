"""Attempts and failures: how a target moves through them, written down in status and nowhere else."""

from dataclasses import replace

from engine_operator.domain import reasons
from engine_operator.domain.desired import Goal, Round
from engine_operator.domain.observed import EngineStatus, Failure, Phase, ProcessFailure, TargetStatus
from engine_operator.domain.serval_facts import Existence


def target_of(goal: Goal, round_: Round) -> TargetStatus:
    """The target to go on with: the one in status if it is still what is wanted, else a fresh one.

    Another value of the retry annotation makes a fresh one too, whatever the old one had come to.
    """
    token = round_.desired.engine.retry_token
    old = round_.observed.status.target
    if old is not None and old.artifact_key == goal.key and old.retry_token == token:
        return old
    return TargetStatus(goal.revision, goal.key, Phase.PENDING, retry_token=token)


def due(target: TargetStatus, round_: Round) -> bool:
    """Whether the next attempt may start now: never while Serval answers 404 for the engine."""
    if round_.desired.existence is Existence.MISSING:
        return False
    if target.phase is not Phase.BACKING_OFF:
        return True
    return target.next_retry is not None and round_.now >= target.next_retry


def failed(
    status: EngineStatus, target: TargetStatus, failure: ProcessFailure, round_: Round
) -> EngineStatus:
    """Record that the target's latest attempt failed, and when the next one may start."""
    policy, seed = round_.policy, f"{round_.desired.engine.namespace}/{round_.desired.engine.name}"
    attempts = max(target.attempts, 1)
    hopeless = target.phase is not Phase.ROLLING_OUT and (
        failure.reason in reasons.HOPELESS or _as_large_as_it_gets(status, target, failure, round_)
    )
    backoff = policy.rollout_backoff if target.phase is Phase.ROLLING_OUT else policy.backoff
    retry = None if hopeless else backoff.next_retry(attempts, seed, round_.now)
    return replace(
        status,
        target=replace(target, phase=Phase.BACKING_OFF, attempts=attempts, next_retry=retry),
        last_failure=Failure(
            target.revision, target.phase, failure.reason, with_exit_code(failure), round_.now
        ),
    )


def with_exit_code(failure: ProcessFailure) -> str:
    """The last words of a process and the code that it ended with, told once."""
    told = f"exit code {failure.exit_code}"
    if failure.exit_code is None or told in failure.message:
        return failure.message
    return f"{failure.message} ({told})"


def outgrew(status: EngineStatus, target: TargetStatus) -> bool:
    """Whether this revision's last conversion had too little memory or disk."""
    last = status.last_failure
    return last is not None and last.revision == target.revision and last.reason in reasons.TOO_SMALL


def _as_large_as_it_gets(
    status: EngineStatus, target: TargetStatus, failure: ProcessFailure, round_: Round
) -> bool:
    """Too little memory or disk, and more was tried already or is not wished: the same again would end the same."""
    if failure.reason not in reasons.TOO_SMALL:
        return False
    return outgrew(status, target) or round_.policy.escalation <= 1


def record_error(status: EngineStatus, failure: ProcessFailure, round_: Round) -> EngineStatus:
    """Record that an action of this round failed at the API, at Serval or at the store.

    For the executor: the plan's status is not written then, this one is. Without a target nothing changes.
    """
    if status.target is None or status.target.phase is Phase.BACKING_OFF:
        return status
    return failed(status, status.target, failure, round_)
