"""Which artifacts may be deleted.

Never one that a Revision, a Pod, the InferenceService, a running Job or the status still names: a sleeping revision
loads its artifact at its next wake, perhaps months later. Beyond those the serving revision and the last good ones
before it stay. What Knative still keeps is waited for, not removed: revisions are Knative's.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from engine_operator.domain import reasons
from engine_operator.domain.actions import Action, CollectArtifacts, EmitEvent, EventType
from engine_operator.domain.desired import Round
from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.domain.observed import EngineStatus, JobPhase, Observed, Phase, StoredArtifact


def collect(status: EngineStatus, round_: Round) -> tuple[Action, ...]:
    """Collect for an engine that exists; only when nothing is on its way, so that a retry finds what it needs."""
    stored, target = round_.observed.stored, status.target
    if stored is None or status.serving is None or target is None or target.phase is not Phase.SERVING:
        return ()
    kept = named(round_.observed, status) | previous_good(stored, status, round_.policy.keep_previous)
    age = round_.policy.stale_attempt_age
    folders = (*_surplus(stored, kept), *_stale_attempts(stored, kept, round_.now - age))
    if not folders:
        return ()
    told = EmitEvent(round_.desired.ref, EventType.NORMAL, reasons.COLLECTED, ", ".join(folders)[:1000])
    return (CollectArtifacts(round_.desired.engine.engine_id, folders, reasons.COLLECTED), told)


def named(observed: Observed, status: EngineStatus) -> frozenset[ArtifactKey]:
    """Every key that anything existing may still load or write."""
    keys: set[ArtifactKey | None] = {r.artifact_key for r in observed.revisions}
    keys |= {j.artifact_key for j in observed.jobs if j.phase not in (JobPhase.SUCCEEDED, JobPhase.FAILED)}
    if observed.service is not None:
        keys.add(observed.service.artifact_key)
    for record in (status.serving, status.target, observed.status.serving, observed.status.target):
        keys.add(record.artifact_key if record is not None else None)
    return frozenset(k for k in keys if k is not None)


def previous_good(
    stored: Sequence[StoredArtifact], status: EngineStatus, count: int
) -> frozenset[ArtifactKey]:
    """The latest complete artifacts before the serving one, `count` revisions of them."""
    if status.serving is None:
        return frozenset()
    older = [a.key for a in stored if a.has_manifest and a.key.revision < status.serving.revision]
    revisions = sorted({key.revision for key in older}, reverse=True)[:count]
    return frozenset(key for key in older if key.revision in revisions)


def _surplus(stored: Iterable[StoredArtifact], kept: frozenset[ArtifactKey]) -> tuple[str, ...]:
    return tuple(f"{a.key}/" for a in sorted(stored, key=lambda a: a.key) if a.key not in kept)


def _stale_attempts(
    stored: Iterable[StoredArtifact], kept: frozenset[ArtifactKey], before: datetime
) -> tuple[str, ...]:
    """Attempt folders of kept artifacts that the manifest does not name, and that nobody has written to lately."""
    return tuple(
        f"{artifact.key}/{attempt.name}/"
        for artifact in stored
        if artifact.key in kept and artifact.manifest_attempt is not None
        for attempt in artifact.attempts
        if attempt.name != artifact.manifest_attempt and attempt.newest < before
    )


def collect_orphans(
    stored: Iterable[StoredArtifact],
    engines: frozenset[EngineId],
    still_named: frozenset[ArtifactKey],
    now: datetime,
    grace: timedelta,
) -> tuple[CollectArtifacts, ...]:
    """Collect what engines left that no longer have a TranslationEngine in this installation.

    `still_named` are the keys that any InferenceService, Revision or Job in the namespace names. Nothing younger than
    `grace` goes: a resource that is deleted and applied again finds its model.
    """
    folders: dict[EngineId, list[str]] = {}
    for artifact in stored:
        newest = max((a.newest for a in artifact.attempts), default=None)
        if artifact.key.engine_id in engines or artifact.key in still_named:
            continue
        if newest is not None and now - newest < grace:
            continue
        folders.setdefault(artifact.key.engine_id, []).append(f"{artifact.key}/")
    return tuple(
        CollectArtifacts(engine, tuple(sorted(found)), reasons.ENGINE_GONE)
        for engine, found in sorted(folders.items())
    )
