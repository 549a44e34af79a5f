"""From a manifest to the revision that serves.

The InferenceService names exactly one model revision. It changes once per revision, once per deliberate retry (one
environment value), and when what people wrote changes. Knative moves traffic; this module only reads whether it did.

Two ways share this path. BlueGreen starts a pod of the new revision beside the old one. A swap (strategy Recreate, or
Auto on one GPU, or start OnFirstCall) creates the revision with initial scale 0: it takes all traffic at once, calls
wait in the activator, and on failure the template of the revision before is applied the same way.
"""

from collections.abc import Iterable
from dataclasses import replace

from engine_operator.domain import reasons
from engine_operator.domain.actions import (
    Action,
    ApplyInferenceService,
    DeleteInferenceService,
    EmitEvent,
    EventType,
    ServiceTemplate,
)
from engine_operator.domain.attempts import due, failed
from engine_operator.domain.budget import time_chain
from engine_operator.domain.desired import Goal, Round, Stage, template_hash
from engine_operator.domain.engine import Profile, RolloutStart, Strategy
from engine_operator.domain.observed import (
    ConditionStatus,
    EngineStatus,
    Known,
    ManifestFact,
    Phase,
    PodState,
    ProcessFailure,
    RevisionState,
    ServiceState,
    TargetStatus,
)
from engine_operator.domain.room import short_for_rollout, short_without_swap
from engine_operator.domain.serving import live_service, pods_of, proven, still_held

UNSCHEDULABLE = "Unschedulable"
"""Knative's reason while a pod has no node: a normal state of a cold start, not a failure."""

IMAGE_MISSING = "ContainerMissing"
"""Knative's reason where its controller can't turn an image's tag into a digest; no pod is made then."""


def runs(service: ServiceState | None, goal: Goal) -> bool:
    """Whether the InferenceService names the goal."""
    return (
        service is not None
        and service.model_revision == goal.revision
        and service.manifest_sha256 == goal.manifest.sha256
        and service.artifact_key == goal.key
    )


def template(goal: Goal, attempt: int, initial_scale: int, image: str, round_: Round) -> ServiceTemplate:
    """The complete InferenceService of one artifact."""
    desired, chosen = round_.desired, round_.desired.effective.serving
    cap = round_.observed.knative.max_revision_timeout_seconds
    chain = time_chain(round_.policy.budget, chosen.scale_down_delay, chosen.window, cap)
    return ServiceTemplate(
        engine=desired.ref,
        engine_id=desired.engine.engine_id,
        model_revision=goal.revision,
        key=goal.key,
        manifest_sha256=goal.manifest.sha256,
        attempt=attempt,
        model_uri=desired.location(goal.key),
        store=desired.artifact_store,
        serving=replace(
            chosen,
            runtime_image=image,
            image_pull_secrets=chosen.image_pull_secrets or round_.policy.image_pull_secrets,
        ),
        initial_scale=1 if round_.policy.mode.standard else initial_scale,
        progress_deadline_seconds=int(chain.progress_deadline.total_seconds()),
        response_start_seconds=int(chain.response_start.total_seconds()),
        service_account=round_.policy.workload_service_account,
        mode=round_.policy.mode if round_.policy.mode.standard else None,
        model_bytes=0 if desired.effective.resources_chosen else _size(goal, round_),
    )


def _size(goal: Goal, round_: Round) -> int:
    """Bytes of the goal's model, from whichever manifest of this round tells it."""
    facts = (goal.manifest, round_.observed.manifest, round_.observed.serving_manifest)
    return max(f.model_bytes for f in facts if f.sha256 == goal.manifest.sha256)


def roll_out(goal: Goal, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """One step towards the goal serving; called only while its manifest is present."""
    target = _entered(target, status)
    status = replace(status, target=target)
    if round_.observed.service is not None and round_.observed.service.deleting:
        return Stage(status)  # A dying service is never counted as existing; its absence is waited for.
    if round_.refusal is not None:
        return Stage(replace(status, target=replace(target, phase=Phase.CONVERTED, attempts=0)))
    service = live_service(round_)
    if service is None or not runs(service, goal):
        return _enter(goal, target, status, round_)
    target = replace(target, attempts=max(target.attempts, service.attempt))
    if _forced(goal, round_):
        target = replace(target, phase=Phase.BACKING_OFF, next_retry=round_.now)
    return _advance(goal, target, service, status, round_)


def _forced(goal: Goal, round_: Round) -> bool:
    """Whether a person asks, in this round, to try a failed rollout again: the next attempt is due at once."""
    old = round_.observed.status.target
    if old is None or old.artifact_key != goal.key or old.phase is not Phase.BACKING_OFF:
        return False
    return old.retry_token != round_.desired.engine.retry_token


def maintain(goal: Goal, status: EngineStatus, round_: Round) -> tuple[Action, ...]:
    """Look after what serves while the goal is not ready to take its place.

    The InferenceService is made again if it is gone, and corrected if it is not as people want it.
    """
    serving, service = status.serving, round_.observed.service
    if serving is None or serving.artifact_key == goal.key or round_.refusal is not None:
        return ()
    if service is None:
        return _apply_previous(status, 1, round_)
    fact = ManifestFact(Known.PRESENT, serving.manifest_sha256)
    previous = Goal(serving.revision, serving.artifact_key, fact)
    if service.deleting or not runs(service, previous):
        return ()
    correction = correction_of(previous, service, status, round_)
    return () if correction is None else (correction,)


def _entered(target: TargetStatus, status: EngineStatus) -> TargetStatus:
    """Attempts count per stage: entering the rollout starts them anew."""
    converting = target.phase in (Phase.PENDING, Phase.CONVERTING)
    failure = status.last_failure
    if target.phase is Phase.BACKING_OFF and (failure is None or failure.phase is not Phase.ROLLING_OUT):
        converting = True
    return replace(target, phase=Phase.CONVERTED, attempts=0, next_retry=None) if converting else target


def _enter(goal: Goal, target: TargetStatus, status: EngineStatus, round_: Round) -> Stage:
    """Make the InferenceService name the goal."""
    if not due(target, round_):
        return Stage(status, maintain(goal, status, round_))
    service = live_service(round_)
    swap = _wants_swap(service, round_)
    if not (_free_place(round_) if swap else _may_start(round_)):
        waiting = replace(target, phase=Phase.CONVERTED)
        return Stage(replace(status, target=waiting), maintain(goal, status, round_))
    if swap and service is not None and round_.observed.knative.allow_zero_initial_scale is False:
        why = f"{reasons.ZERO_INITIAL_SCALE_DISABLED}: the service is made again for revision {goal.revision}"
        return Stage(status, (DeleteInferenceService(round_.desired.ref, why),))
    lost = target.phase is Phase.ROLLING_OUT and target.attempts > 0
    attempt = target.attempts if lost else target.attempts + 1
    wish = template(goal, attempt, 0 if swap else 1, round_.desired.effective.serving.runtime_image, round_)
    target = replace(target, phase=Phase.ROLLING_OUT, attempts=attempt, next_retry=None)
    return Stage(replace(status, target=target), (ApplyInferenceService(wish, template_hash(wish)),))


def _wants_swap(service: ServiceState | None, round_: Round) -> bool:
    """Initial scale 0 only where something serves already: a first revision must prove itself without callers."""
    rollout = round_.desired.effective.rollout
    asked = rollout.strategy is Strategy.RECREATE or rollout.start is RolloutStart.ON_FIRST_CALL
    if rollout.strategy is Strategy.AUTO and round_.observed.knative.allow_zero_initial_scale is not False:
        asked = asked or short_without_swap(round_)
    return asked and service is not None and round_.observed.status.serving is not None


def occupies_place(status: EngineStatus, service: ServiceState | None) -> bool:
    """Whether an engine counts among those that roll out: not while its new revision waits for a first call."""
    rolling = status.target is not None and status.target.phase is Phase.ROLLING_OUT
    return rolling and not (service is not None and service.initial_scale == 0)


def place_of(status: EngineStatus, service: ServiceState | None) -> Phase | None:
    """The phase in which an engine counts among those that work side by side; a rollout that waits counts as done."""
    if status.target is None or status.target.phase is not Phase.ROLLING_OUT:
        return status.target.phase if status.target else None
    return Phase.ROLLING_OUT if occupies_place(status, service) else Phase.SERVING


def _free_place(round_: Round) -> bool:
    """Whether another rollout may begin, and none of a higher priority waits for the same place."""
    observed = round_.observed
    return observed.busy_rollouts + observed.ahead_rollouts < round_.policy.max_rolling


def _may_start(round_: Round) -> bool:
    """Whether a pod of another revision may start beside those that serve."""
    return _free_place(round_) and short_for_rollout(round_) is None


def _advance(
    goal: Goal, target: TargetStatus, service: ServiceState, status: EngineStatus, round_: Round
) -> Stage:
    """The InferenceService names the goal: see how far Knative and the pods are."""
    drifted = _correct(goal, target, service, status, round_)
    if drifted is not None:
        return drifted
    revision = newest(goal, service, round_.observed.revisions)
    # Its record in the status says that it serves: with an address, without which clients could not follow.
    recorded = (
        revision is not None
        and status.serving is not None
        and status.serving.knative_revision == revision.name
    )
    if revision is not None and recorded and _promoted(revision, service, round_):
        return Stage(replace(status, target=replace(target, phase=Phase.SERVING, next_retry=None)))
    if target.phase is Phase.BACKING_OFF:
        return _retry(goal, target, service, status, round_)
    target = replace(target, phase=Phase.ROLLING_OUT)
    status = replace(status, target=target)
    if revision is None:
        return Stage(status)
    failure = failure_of(revision, service, round_)
    if failure is not None:
        status = failed(status, target, failure, round_)
        return Stage(status, _roll_back(revision, status, round_))
    if _starved(revision, round_):
        return _swap(goal, target, service, status, round_)
    return Stage(status)


def _correct(
    goal: Goal, target: TargetStatus, service: ServiceState, status: EngineStatus, round_: Round
) -> Stage | None:
    """Correct the goal's own InferenceService; None where it is as it should be."""
    correction = correction_of(goal, service, status, round_)
    if correction is None:
        return None
    rolls = not correction.reclaim and target.phase is not Phase.BACKING_OFF
    target = replace(target, phase=Phase.ROLLING_OUT) if rolls else target
    return Stage(replace(status, target=target), (correction,))


def correction_of(
    goal: Goal, service: ServiceState, status: EngineStatus, round_: Round
) -> ApplyInferenceService | None:
    """What to apply where our fields are not what we applied; None where they are.

    Two hashes decide, both kept in the engine's status: that of the template, which changes with what people want,
    and that of our entry in `managedFields`, which changes only if somebody overwrites or removes a field of ours.
    Defaults that webhooks add, and fields of others, change neither.
    """
    wish = _wish(goal, service, round_)
    hash_, applied = template_hash(wish), status.applied
    if applied is None:
        return ApplyInferenceService(wish, hash_)
    if applied.template_hash != hash_:
        return ApplyInferenceService(wish, hash_) if _may_start(round_) else None
    if applied.owned_hash == service.owned_hash or applied.reclaimed:
        return None
    return ApplyInferenceService(wish, hash_, reclaim=True)


def _wish(goal: Goal, service: ServiceState, round_: Round) -> ServiceTemplate:
    """What people want of a service that runs the goal."""
    chosen, policy = round_.desired.effective.serving, round_.policy
    image = chosen.runtime_image if chosen.image_chosen or policy.roll_release else service.runtime_image
    return template(goal, service.attempt, service.initial_scale, image, round_)


def outdated(status: EngineStatus, round_: Round) -> bool:
    """Whether an engine serves as people no longer want it, and only waits for its turn to be corrected."""
    serving, service, applied = status.serving, round_.observed.service, status.applied
    resting = status.target is not None and status.target.phase is Phase.SERVING
    if serving is None or service is None or applied is None or not resting:
        return False
    if round_.desired.engine.paused or service.deleting or round_.refusal is not None:
        return False
    fact = ManifestFact(Known.PRESENT, serving.manifest_sha256)
    goal = Goal(serving.revision, serving.artifact_key, fact)
    return runs(service, goal) and applied.template_hash != template_hash(_wish(goal, service, round_))


def newest(goal: Goal, service: ServiceState, revisions: Iterable[RevisionState]) -> RevisionState | None:
    """The latest Knative revision of the goal and of the attempt that the service names."""
    matching = [
        r
        for r in revisions
        if r.model_revision == goal.revision
        and r.manifest_sha256 == goal.manifest.sha256
        and r.attempt == service.attempt
        and r.initial_scale == service.initial_scale
    ]
    return max(matching, key=lambda r: (r.created, r.name), default=None)


def _promoted(revision: RevisionState, service: ServiceState, round_: Round) -> bool:
    if service.all_traffic != revision.name:
        return False
    serving = round_.observed.status.serving
    if serving is not None and serving.knative_revision == revision.name:
        return True
    return revision.ready is ConditionStatus.TRUE and proven(revision, round_)


def failure_of(revision: RevisionState, service: ServiceState, round_: Round) -> ProcessFailure | None:
    """Why this revision's attempt has failed; None while it may still succeed.

    The pod's own words come first: what Knative and KServe report outlives its cause or lacks it. A pod without a
    node is given the whole wake budget.
    """
    pods = pods_of(round_, revision.name)
    if any(not pod.ready and still_held(pod, round_) for pod in pods):
        return None
    for pod in pods:
        if pod.failure is not None and not pod.ready:
            return pod.failure
    if revision.ready is not ConditionStatus.FALSE:
        return None
    if revision.reason == IMAGE_MISSING:
        return ProcessFailure(reasons.IMAGE_UNRESOLVABLE, revision.message)
    homeless = next((pod.unschedulable for pod in pods if pod.unschedulable), None)
    if revision.reason == UNSCHEDULABLE:
        if round_.now - revision.created <= round_.policy.budget.total:
            return None
        return ProcessFailure(reasons.NO_CAPACITY, revision.message or "no node had room for the pod")
    if homeless is not None:
        return ProcessFailure(reasons.NO_CAPACITY, f"{revision.reason}: {homeless}")
    return ProcessFailure(reasons.REVISION_FAILED, f"{revision.reason}: {revision.message}")


def _retry(
    goal: Goal, target: TargetStatus, service: ServiceState, status: EngineStatus, round_: Round
) -> Stage:
    """Start the next attempt by changing one environment value."""
    status = replace(status, target=target)
    free = _may_start(round_) if service.initial_scale else _free_place(round_)
    if not due(target, round_) or not free:
        return Stage(status)
    chosen = round_.desired.effective.serving
    wish = template(goal, target.attempts + 1, service.initial_scale, chosen.runtime_image, round_)
    target = replace(target, phase=Phase.ROLLING_OUT, attempts=wish.attempt, next_retry=None)
    return Stage(replace(status, target=target), (ApplyInferenceService(wish, template_hash(wish)),))


def _starved(revision: RevisionState, round_: Round) -> bool:
    """Strategy Auto: the new pod wants the GPU that a pod of the serving revision holds."""
    desired, serving = round_.desired.effective, round_.observed.status.serving
    if desired.rollout.strategy is not Strategy.AUTO or desired.serving.profile is not Profile.GPU:
        return False
    if revision.initial_scale == 0 or serving is None or serving.knative_revision == revision.name:
        return False
    if round_.observed.knative.allow_zero_initial_scale is False:
        return False
    holders = [p for p in pods_of(round_, serving.knative_revision) if p.unschedulable is None]
    waiting = [p for p in pods_of(round_, revision.name) if _wants_gpu(p, desired.gpu.resource)]
    patience = round_.policy.auto_swap_after
    return bool(holders) and any(round_.now - p.created >= patience for p in waiting)


def _wants_gpu(pod: PodState, resource: str) -> bool:
    return pod.unschedulable is not None and resource in pod.unschedulable


def _swap(
    goal: Goal, target: TargetStatus, service: ServiceState, status: EngineStatus, round_: Round
) -> Stage:
    """Go on as a swap: the same artifact as a new attempt with initial scale 0."""
    wish = template(goal, target.attempts + 1, 0, service.runtime_image, round_)
    status = replace(status, target=replace(target, attempts=wish.attempt))
    told = f"revision {goal.revision} waits for the GPU of revision {_previous(status)}; calls are held meanwhile"
    event = EmitEvent(round_.desired.ref, EventType.NORMAL, reasons.SWAPPING, told)
    return Stage(status, (ApplyInferenceService(wish, template_hash(wish)), event))


def _previous(status: EngineStatus) -> str:
    return str(status.serving.revision) if status.serving else "none"


def _roll_back(revision: RevisionState, status: EngineStatus, round_: Round) -> tuple[Action, ...]:
    """After a failed swap all traffic waits at a revision that does not load: bring the one before back."""
    serving = status.serving
    if revision.initial_scale > 0 or serving is None or serving.manifest_sha256 == revision.manifest_sha256:
        return ()
    told = f"revision {revision.model_revision} failed after the swap; revision {serving.revision} is applied again"
    event = EmitEvent(round_.desired.ref, EventType.WARNING, reasons.ROLLED_BACK, told)
    return (*_apply_previous(status, 0, round_), event)


def _apply_previous(status: EngineStatus, initial_scale: int, round_: Round) -> tuple[Action, ...]:
    serving, manifest = status.serving, round_.observed.serving_manifest
    if serving is None or manifest.presence is Known.ABSENT:
        return ()
    fact = replace(manifest, presence=Known.PRESENT, sha256=serving.manifest_sha256)
    goal = Goal(serving.revision, serving.artifact_key, fact)
    wish = template(goal, 1, initial_scale, serving.runtime_image, round_)
    return (ApplyInferenceService(wish, template_hash(wish)),)
