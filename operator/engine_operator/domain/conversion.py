"""From a wanted revision to its manifest in the artifact store.

The manifest is the truth: with it nothing is converted, whatever Jobs exist; without it a Job that succeeded has
failed. A Job is never changed: another attempt, or another converter image, is another Job.
"""

from dataclasses import replace

from engine_operator.domain import reasons
from engine_operator.domain.actions import (
    Action,
    ConversionPlan,
    DeleteJob,
    EmitEvent,
    EventType,
    RefreshSourceUrl,
    StartConversion,
)
from engine_operator.domain.attempts import due, failed, outgrew
from engine_operator.domain.budget import conversion_deadline, conversion_resources
from engine_operator.domain.desired import Goal, Round, Stage
from engine_operator.domain.engine import SourceRef
from engine_operator.domain.keys import attempt_id
from engine_operator.domain.names import job_name
from engine_operator.domain.observed import (
    EngineStatus,
    JobPhase,
    JobState,
    Known,
    Phase,
    ProcessFailure,
    TargetStatus,
)

SOURCE_GROWTH = 1.1
"""Between two builds of an engine: a vocabulary grows by a few pieces, an archive packs a little worse."""

_ENDED = (JobPhase.SUCCEEDED, JobPhase.FAILED)


def superseded_jobs(goal: Goal | None, round_: Round) -> tuple[Action, ...]:
    """Remove Jobs that work on anything but the goal: an older revision must not cost a machine, nor end late."""
    ref = round_.desired.ref
    others = [
        job
        for job in round_.observed.jobs
        if not job.deleting and (goal is None or job.artifact_key != goal.key)
    ]
    return (*(DeleteJob(ref, job.name, reasons.SUPERSEDED) for job in others), *_told(goal, others, round_))


def _told(goal: Goal | None, removed: list[JobState], round_: Round) -> tuple[EmitEvent, ...]:
    """One Event for each revision whose conversion was cut short by a newer one."""
    if goal is None:
        return ()
    at_work = {job.artifact_key.revision for job in removed if job.phase not in _ENDED}
    return tuple(
        EmitEvent(
            round_.desired.ref,
            EventType.NORMAL,
            reasons.SUPERSEDED,
            f"the conversion of revision {older} was ended: revision {goal.revision} is wanted",
        )
        for older in sorted(at_work)
        if older < goal.revision
    )


def convert(goal: Goal, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """One step towards the manifest; called only while there is none, or nobody knows."""
    status = replace(status, target=target)
    if goal.manifest.presence is Known.UNKNOWN or round_.observed.storage is not None:
        return Stage(status)
    jobs = [j for j in round_.observed.jobs if j.artifact_key == goal.key and not j.deleting]
    latest = max(jobs, key=lambda j: j.attempt, default=None)
    if latest is not None and latest.attempt >= target.attempts:
        return _follow(latest, target, status, round_)
    if not due(target, round_):
        return Stage(status)
    return _start(goal, target, status, round_)


def _follow(job: JobState, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """Go by the Job of the present attempt."""
    target = replace(target, attempts=job.attempt)
    if target.phase is Phase.BACKING_OFF:
        if not due(target, round_):
            return Stage(replace(status, target=target))
        goal = Goal(target.revision, target.artifact_key, round_.observed.manifest)
        stage = _start(goal, target, status, round_)
        removed = DeleteJob(round_.desired.ref, job.name, "the next attempt starts")
        return replace(stage, actions=(removed, *stage.actions)) if stage.actions else stage
    target = replace(target, phase=Phase.CONVERTING)
    status = replace(status, target=target)
    if job.phase is JobPhase.FAILED:
        failure = job.failure or ProcessFailure(
            reasons.CONVERSION_FAILED, "the Job failed and its pod is gone"
        )
        return Stage(failed(status, target, failure, round_))
    if job.phase is JobPhase.SUCCEEDED:
        failure = ProcessFailure(
            reasons.MANIFEST_MISSING, f"Job {job.name} succeeded, but there is no manifest"
        )
        return Stage(failed(status, target, failure, round_))
    if job.phase not in (JobPhase.WAITING, JobPhase.NEEDS_SOURCE):
        return Stage(status)
    if job.source_written is not None and round_.now - job.source_written < round_.policy.source_url_lifetime:
        return Stage(status)
    return Stage(status, _source_url(job.name, target.revision, round_))


def _source_url(job: str, revision: int, round_: Round) -> tuple[Action, ...]:
    """Hand over a presigned URL, where the Job needs one.

    At once with the Job: a container that finds no Secret is tried again only ten seconds later. And again for as long
    as its pod has not started, since the URL lives an hour and a node may take a while.
    """
    desired = round_.desired
    if desired.model_source is not None or not isinstance(desired.engine.origin, SourceRef):
        return ()
    origin = desired.engine.origin
    return (RefreshSourceUrl(desired.ref, job, origin.serval_source, origin.engine_id, revision),)


def expected_source(round_: Round) -> int:
    """Bytes of the archive that nobody has seen yet: about those of the revision that serves, else as assumed."""
    known = round_.observed.serving_manifest.source_bytes
    return int(known * SOURCE_GROWTH) if known else round_.policy.assumed_source_bytes


def _start(goal: Goal, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """Start the next attempt, if a place is free."""
    if round_.observed.busy_conversions + round_.observed.ahead_conversions >= round_.policy.max_converting:
        return Stage(replace(status, target=target))
    desired, policy = round_.desired, round_.policy
    size = expected_source(round_)
    size = int(size * policy.escalation) if outgrew(status, target) else size
    lost = target.phase is Phase.CONVERTING and target.attempts > 0
    attempt = target.attempts if lost else target.attempts + 1  # A Job that somebody removed is made again.
    conversion = ConversionPlan(
        engine=desired.ref,
        job=job_name(desired.engine.name, goal.key, attempt, policy.converter_image),
        key=goal.key,
        options=desired.effective.options,
        attempt=attempt,
        attempt_id=attempt_id(goal.key, attempt, policy.converter_image),
        image=policy.converter_image,
        destination=desired.location(goal.key),
        artifact_store=desired.artifact_store,
        source=desired.model_source,
        languages=desired.effective.languages,
        resources=conversion_resources(size),
        deadline_seconds=conversion_deadline(size, policy.budget),
        image_pull_secrets=desired.effective.serving.image_pull_secrets or policy.image_pull_secrets,
        service_account=policy.workload_service_account,
    )
    target = replace(target, phase=Phase.CONVERTING, attempts=attempt, next_retry=None)
    handed_over = _source_url(conversion.job, goal.revision, round_)
    return Stage(replace(status, target=target), (StartConversion(conversion), *handed_over))
