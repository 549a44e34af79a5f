"""A tiny world for the plan: it carries out actions as the executor and Kubernetes would, in memory.

What Knative, the converter and people do is said by the test (`converted`, `ready`, `crashed`, …); what the operator
does comes from `plan` alone. `settle` repeats rounds until nothing is left to do, so tests read the state of the world.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from engine_operator.domain import actions as act
from engine_operator.domain.capacity import Quota, Taken
from engine_operator.domain.desired import Desired
from engine_operator.domain.effective import bounded, effective
from engine_operator.domain.engine import EngineSpec, ObjectStore, RolloutSpec, SourceRef, Strategy
from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.domain.observed import (
    ABSENT_MANIFEST,
    AppliedStatus,
    Condition,
    ConditionStatus,
    EngineStatus,
    JobPhase,
    JobState,
    KnativeSettings,
    Known,
    ManifestFact,
    Observed,
    PodState,
    ProcessFailure,
    RevisionState,
    ServiceState,
    StoredArtifact,
)
from engine_operator.domain.plan import plan
from engine_operator.domain.policy import Policy
from engine_operator.domain.serval_facts import Existence, Verdict
from engine_operator.profiles import defaults

START = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
ENGINE_ID = EngineId("66c4a1f09d3e5b7a8c0f1e21")
NAME = f"e{ENGINE_ID}"
DEFAULTS = defaults("registry.example/predictor@sha256:1", "registry.example/predictor-gpu@sha256:1")
POLICY = Policy(converter_image="registry.example/predictor@sha256:1")
FAILED = ProcessFailure("SourceUnreachable", "the link answered 503", 25)
CRASH = ProcessFailure("ProbeMismatch", "probe 1: expected [5, 6], got [5, 7]", 3)


def engine(**changes: object) -> EngineSpec:
    """The TranslationEngine of a discovered engine."""
    spec = EngineSpec(NAME, "live", "uid-1", SourceRef("main", ENGINE_ID), generation=1, operator_made=True)
    return replace(spec, **changes)  # type: ignore[arg-type]


def strategy(word: Strategy, **changes: object) -> EngineSpec:
    """The same with a rollout strategy."""
    return engine(rollout=RolloutSpec(word), **changes)


@dataclass
class World:
    """One engine and everything around it."""

    spec: EngineSpec = field(default_factory=engine)
    now: datetime = START
    policy: Policy = POLICY
    wanted: int | None = 3
    existence: Existence = Existence.PRESENT
    verdict: Verdict | None = None
    status: EngineStatus = field(default_factory=EngineStatus)
    manifests: dict[ArtifactKey, ManifestFact] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    service: ServiceState | None = None
    revisions: list[RevisionState] = field(default_factory=list)
    pods: list[PodState] = field(default_factory=list)
    stored: tuple[StoredArtifact, ...] | None = None
    storage: Verdict | None = None
    store_silent: bool = False
    busy_rollouts: int = 0
    busy_conversions: int = 0
    ahead_rollouts: int = 0
    ahead_conversions: int = 0
    quota: Quota = field(default_factory=Quota)
    taken: Taken = field(default_factory=Taken)
    kept: bool = False
    knative: KnativeSettings = field(default_factory=KnativeSettings)
    done: list[act.Action] = field(default_factory=list)
    writes: int = 0
    """Applies of the InferenceService."""

    # What the operator sees and does.

    def desired(self) -> Desired:
        store = ObjectStore("s3://artifacts/live", secret="store")
        return Desired(
            self.spec,
            bounded(
                effective(self.spec, None, replace(DEFAULTS, converter_image=self.policy.converter_image)),
                self.quota,
            ),
            store,
            "1a2b3c4d-live-main",
            self.existence,
            self.wanted,
            self.verdict,
            quota=self.quota,
        )

    def key(self, revision: int) -> ArtifactKey:
        return self.desired().key(revision)

    def _manifest(self, key: ArtifactKey | None) -> ManifestFact:
        if self.store_silent or key is None:
            return ManifestFact(Known.UNKNOWN)
        return self.manifests.get(key, ABSENT_MANIFEST)

    def observed(self) -> Observed:
        target = (
            self.spec.pinned or self.wanted or (self.status.target.revision if self.status.target else None)
        )
        serving = self.status.serving
        return Observed(
            status=self.status,
            manifest=self._manifest(self.key(target) if target else None),
            serving_manifest=self._manifest(serving.artifact_key if serving else None),
            jobs=tuple(self.jobs.values()),
            service=self.service,
            revisions=tuple(self.revisions),
            pods=tuple(self.pods),
            stored=self.stored,
            storage=self.storage,
            busy_rollouts=self.busy_rollouts,
            busy_conversions=self.busy_conversions,
            ahead_rollouts=self.ahead_rollouts,
            ahead_conversions=self.ahead_conversions,
            taken=self.taken,
            kept=self.kept,
            knative=self.knative,
        )

    def round(self) -> list[act.Action]:
        """One plan, carried out."""
        actions = plan(self.desired(), self.observed(), self.now, self.policy)
        applied: AppliedStatus | None = None
        for action in actions:
            match action:
                case act.StartConversion(conversion):
                    job = JobState(
                        conversion.job, conversion.key, conversion.attempt, JobPhase.WAITING, self.now
                    )
                    self.jobs.setdefault(conversion.job, job)
                case act.RefreshSourceUrl(job=name):
                    self.jobs[name] = replace(self.jobs[name], source_written=self.now)
                case act.DeleteJob(job=name):
                    self.jobs.pop(name, None)
                case act.ApplyInferenceService():
                    applied = self._apply(action)
                case act.DeleteInferenceService():
                    self.service, self.revisions, self.pods = None, [], []
                case act.HoldRevision(revision=name, replicas=replicas):
                    self.revisions = [
                        replace(r, held=replicas) if r.name == name else r for r in self.revisions
                    ]
                case act.DeleteRevision(revision=name):
                    self.revisions = [r for r in self.revisions if r.name != name]
                    self.pods = [p for p in self.pods if p.knative_revision != name]
                case act.CollectArtifacts(folders=folders):
                    self._collect(folders)
                case act.WriteStatus(status=status):
                    self.status = replace(status, applied=applied) if applied else status
                case _:
                    pass
        self.done += actions
        return actions

    def _apply(self, action: act.ApplyInferenceService) -> AppliedStatus:
        wish, latest = action.template, self.service
        self.writes += 1
        facts = (
            wish.model_revision,
            wish.manifest_sha256,
            wish.attempt,
            wish.key,
            wish.serving.runtime_image,
        )
        before = self._pod_template(action)
        self.service = ServiceState(
            "http://e.live.svc.cluster.local",
            False,
            "owned-by-us",
            *facts,
            wish.initial_scale,
            latest.all_traffic if latest else None,
        )
        if before != (*facts, wish.initial_scale, action.template_hash):
            number = int(self.revisions[-1].name[-5:]) + 1 if self.revisions else 1
            name = f"{wish.engine.name}-predictor-{number:05d}"
            self.revisions.append(
                RevisionState(
                    name, self.now, *facts, wish.initial_scale, ConditionStatus.UNKNOWN, "Deploying"
                )
            )
            self._start(name, wish.initial_scale)
        return AppliedStatus(action.template_hash, "owned-by-us", action.reclaim)

    def _pod_template(self, action: act.ApplyInferenceService) -> tuple[object, ...] | None:
        """What Knative compares before it makes another revision: the service as it was before this write."""
        latest, applied = self.service, self.status.applied
        if latest is None:
            return None
        return (
            latest.model_revision,
            latest.manifest_sha256,
            latest.attempt,
            latest.artifact_key,
            latest.runtime_image,
            latest.initial_scale,
            applied.template_hash if applied else action.template_hash,
        )

    def _start(self, name: str, initial_scale: int) -> None:
        """The first pod of a revision; one that starts with none is ready at once and has the traffic."""
        if initial_scale:
            self.pods.append(PodState(f"{name}-pod", name, self.now, False))
            return
        self._mark(name, ConditionStatus.TRUE, "")
        if self.service is not None:
            self.service = replace(self.service, all_traffic=name, routed=True)

    def _collect(self, folders: tuple[str, ...]) -> None:
        for folder in folders:
            key = ArtifactKey.parse(folder)
            if key is not None:
                self.manifests.pop(key, None)
                self.stored = tuple(a for a in self.stored or () if a.key != key)

    def settle(self, limit: int = 20) -> list[act.Action]:
        """Rounds until nothing is left to do; returns everything that was done."""
        found: list[act.Action] = []
        for _ in range(limit):
            actions = self.round()
            found += actions
            if not actions:
                return found
        raise AssertionError(f"never settles; last: {found[-4:]}")

    # What others do.

    def passes(self, **span: float) -> None:
        self.now += timedelta(**span)

    def job(self) -> JobState:
        return max(self.jobs.values(), key=lambda j: (j.artifact_key.revision, j.attempt))

    def job_is(self, phase: JobPhase, failure: ProcessFailure | None = None) -> None:
        job = self.job()
        self.jobs[job.name] = replace(job, phase=phase, failure=failure)

    def converted(self, revision: int | None = None) -> None:
        """The latest Job publishes its manifest and ends."""
        if self.jobs and revision is None:
            job = self.job()
            self.jobs[job.name] = replace(job, phase=JobPhase.SUCCEEDED)
            self.publish(job.artifact_key.revision)
        elif revision is not None:
            self.publish(revision)

    def publish(self, revision: int) -> None:
        sha = f"{revision:064d}"
        self.manifests[self.key(revision)] = ManifestFact(Known.PRESENT, sha, "a1-000000")

    def latest(self) -> RevisionState:
        return self.revisions[-1]

    def _mark(self, name: str, ready: ConditionStatus, reason: str, message: str = "") -> None:
        self.revisions = [
            replace(r, ready=ready, reason=reason, message=message) if r.name == name else r
            for r in self.revisions
        ]

    def pod_of(self, name: str, **facts: object) -> None:
        """Say something of the pods of a Knative revision; makes one if there is none."""
        if not any(p.knative_revision == name for p in self.pods):
            self.pods.append(PodState(f"{name}-pod", name, self.now, False))
        self.pods = [replace(p, **facts) if p.knative_revision == name else p for p in self.pods]  # type: ignore[arg-type]

    def ready(self) -> None:
        """The latest revision passes its smoke translation; Knative moves traffic and removes the older pods."""
        name = self.latest().name
        self.pod_of(name, ready=True, unschedulable=None, failure=None)
        self.pods = [p for p in self.pods if p.knative_revision == name]
        self._mark(name, ConditionStatus.TRUE, "")
        assert self.service is not None
        self.service = replace(self.service, all_traffic=name, routed=True)

    def crashed(self, failure: ProcessFailure = CRASH) -> None:
        """The pod of the latest revision ends by failure; Knative says so in its own way."""
        name = self.latest().name
        self.pod_of(name, ready=False, failure=failure)
        self._mark(name, ConditionStatus.FALSE, "ExitCode3", "Container failed with: .")

    def service_is_removed(self) -> None:
        self.service, self.revisions, self.pods = None, [], []

    def asleep(self) -> None:
        self.pods = []

    def serves(self, revision: int = 3) -> None:
        """Bring a revision all the way."""
        self.wanted = revision
        self.settle()
        self.converted(revision)
        self.settle()
        self.ready()
        self.settle()
        assert self.status.serving is not None
        assert self.status.serving.revision == revision

    # What tests ask.

    def condition(self, kind: str) -> Condition:
        return next(c for c in self.status.conditions if c.type == kind)

    def said(self, kind: str) -> tuple[str, str]:
        condition = self.condition(kind)
        return condition.status.value, condition.reason

    def serving(self) -> int | None:
        return self.status.serving.revision if self.status.serving else None

    def phase(self) -> str:
        assert self.status.target is not None
        return self.status.target.phase.value


def of_type(actions: list[act.Action], *kinds: type) -> list[act.Action]:
    """Actions of these kinds."""
    return [a for a in actions if isinstance(a, kinds)]
