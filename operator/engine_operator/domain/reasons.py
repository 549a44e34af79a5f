"""Every reason that a condition, an Event or a skipped engine can carry, each with the paragraph that documents it.

The words are part of the API. `docs/reasons.md` is generated from this module (`python -m
engine_operator.domain.reasons`), so that a reason without a paragraph cannot exist. Reasons that a converter or
predictor writes into its termination line are passed on as they are and documented with those programs.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One documented reason."""

    reason: str
    where: str
    """The condition or field that shows it."""
    text: str


ENTRIES: list[Entry] = []


def _reason(word: str, where: str, text: str) -> str:
    ENTRIES.append(Entry(word, where, text))
    return word


# Skipped engines (`ServalSource.status.skipped`) and the verdicts of `engine-operator check`.
ENGINE_TYPE_UNSUPPORTED = _reason(
    "EngineTypeUnsupported", "skipped",
    "The engine is not of type `nmt`. Only NMT engines are NLLB models; SMT and echo engines answer in Serval itself.",
)  # fmt: skip
NOT_SELECTED = _reason(
    "NotSelected", "skipped, Degraded",
    "The ServalSource's `engineSelector` leaves this engine out. A TranslationEngine that exists already goes on "
    "serving what it serves, but follows no new build; delete it to stop it.",
)  # fmt: skip
MODEL_NOT_PERSISTED = _reason(
    "ModelNotPersisted", "skipped, Degraded",
    "The engine was created without `isModelPersisted: true`. Serval then keeps no model file, and the choice cannot "
    "be changed later: the engine has to be created again.",
)  # fmt: skip
NEVER_TRAINED = _reason(
    "NeverTrained", "skipped, Degraded",
    "`modelRevision` is 0: no build of this engine has completed. It is served as soon as one does.",
)  # fmt: skip
ENGINE_OWNED_ELSEWHERE = _reason(
    "EngineOwnedElsewhere", "skipped, Degraded",
    "An older ServalSource of the same Serval shows this engine too, and serves it. One engine is served once.",
)  # fmt: skip
NAME_TOO_LONG = _reason(
    "NameTooLong", "skipped, Degraded",
    "The resource's name and namespace do not fit into the DNS label that Knative builds for the predictor. The "
    "message has the numbers; choose a shorter name or namespace.",
)  # fmt: skip

# Available
SERVING = _reason(
    "Serving", "Available, Progressing",
    "A pod is ready and answers. As the reason of `Progressing=False`: nothing is on its way.",
)  # fmt: skip
ASLEEP = _reason(
    "Asleep", "Available",
    "No pod runs. The next call wakes one; `status.coldStarts` says how long that took lately.",
)  # fmt: skip
WAKING = _reason("Waking", "Available", "A pod has been started and is not ready yet; calls wait for it.")
WAITING_FOR_NODE = _reason(
    "WaitingForNode", "Available",
    "A pod waits for a node, within the time that a node may take to boot. Normal on a pool that scales from zero.",
)  # fmt: skip
NODE_POOL_UNAVAILABLE = _reason(
    "NodePoolUnavailable", "Available, Progressing",
    "The cluster's autoscaler says that no node will come for the pod; the message has its words. Usually the pool's "
    "template lacks a label, a taint's toleration or the GPU, or the pool is at its largest: docs/gpu-pools.md.",
)  # fmt: skip
NEVER_SERVED = _reason(
    "NeverServed", "Available, UpToDate",
    "No revision answers yet: none has passed its smoke translation, or the InferenceService is being made again.",
)  # fmt: skip
WAKE_FAILED = _reason(
    "WakeFailed", "Available",
    "The last wake ended in failure: the model did not load, or no node came in time. The message has the pod's own "
    "words. The next pod that becomes ready clears it.",
)  # fmt: skip
MODEL_GONE = _reason(
    "ModelGone", "Available",
    "The converted model or its manifest is no longer in the artifact store, which is asked every quarter of an hour. "
    "Pods that run go on; the next wake would fail. If Serval still has the source, the model is converted again.",
)  # fmt: skip
SUSPENDED = _reason(
    "Suspended",
    "Available, Progressing",
    "`spec.suspended` is true: the InferenceService is removed, artifacts stay.",
)

# UpToDate
CURRENT = _reason("Current", "UpToDate", "The serving revision is Serval's `modelRevision`.")
PINNED = _reason("Pinned", "UpToDate", "The serving revision is the one that `spec.pinned` names.")
NEWER_MODEL = _reason("NewerModel", "UpToDate", "Another revision is wanted than the one that serves.")
REVISION_UNKNOWN = _reason(
    "RevisionUnknown",
    "UpToDate",
    "Serval could not be asked which revision is the current one; what serves goes on.",
)

# Progressing: the phases of a target
PENDING = _reason(
    "Pending", "Progressing", "A revision is wanted; its conversion waits for a free place or for a store."
)
CONVERTING = _reason("Converting", "Progressing, ModelConverted", "A conversion Job is at work.")
CONVERTED = _reason(
    "Converted", "Progressing, ModelConverted",
    "The manifest is in the artifact store. As the reason of `Progressing`: the rollout waits for one of the places "
    "that `SERVAL_LIVE_OPERATOR_MAX_ROLLING` gives.",
)  # fmt: skip
ROLLING_OUT = _reason(
    "RollingOut", "Progressing",
    "The InferenceService names the new revision; Knative moves traffic when it has passed its smoke translation.",
)  # fmt: skip
BACKING_OFF = _reason(
    "BackingOff", "Progressing", "An attempt failed; `status.target.nextRetry` says when the next one starts."
)
RETRIES_EXHAUSTED = _reason(
    "RetriesExhausted", "Progressing, Degraded",
    "The last attempt failed and none is left, or trying again cannot help. The next build starts anew; so does any "
    "new value of the annotation `serval-live.dev/retry`.",
)  # fmt: skip
PAUSED = _reason(
    "Paused", "Progressing", "`spec.paused` is true: nothing is changed, only the status is kept."
)
DELETING = _reason(
    "Deleting", "Progressing",
    "The InferenceService is on its way out, and something holds it: the message has the finalizers that are waited "
    "for. Whose they are has to remove them, usually KServe's controller.",
)  # fmt: skip
MODE_UNSUPPORTED = _reason(
    "ModeUnsupported", "Progressing, Degraded",
    "KServe's mode in which engines run cannot do what is asked; the message says what and how to ask otherwise. What "
    "serves serves on, nothing new is started: docs/standard-mode.md.",
)  # fmt: skip
QUOTA_EXCEEDED = _reason(
    "QuotaExceeded", "Progressing, Degraded",
    "The ServalSource's `spec.quota` leaves no room for a pod that nobody called for: on `Progressing` for that of a "
    "new revision, on `Degraded` for one that a warm window or `keepWarm` asks for. It goes on when another engine "
    "falls asleep: docs/capacity.md.",
)  # fmt: skip
IDLE = _reason("Idle", "Progressing, ModelConverted", "No revision is wanted.")
ZERO_INITIAL_SCALE_DISABLED = _reason(
    "ZeroInitialScaleDisabled", "Progressing",
    "Strategy Recreate needs `allow-zero-initial-scale: \"true\"` in Knative's `config-autoscaler`. Without it the "
    "service is deleted and made again, and calls fail meanwhile.",
)  # fmt: skip

# ModelConverted, StorageReady
NOT_CONVERTED = _reason(
    "NotConverted", "ModelConverted", "The wanted revision has no manifest in the artifact store."
)
STORAGE_REACHABLE = _reason(
    "Reachable", "StorageReady", "The artifact store answers and accepts the credentials."
)
STORAGE_UNREACHABLE = _reason(
    "StoreUnreachable", "StorageReady", "The artifact store did not answer, or answered 5xx."
)
STORAGE_REFUSES = _reason(
    "StoreRefuses",
    "StorageReady",
    "The artifact store does not know the keys, or they may not do what is needed.",
)
STORAGE_MISCONFIGURED = _reason(
    "StoreMisconfigured", "StorageReady",
    "A Secret, one of its keys, a bucket or an address is missing; the message names it and the expected spelling. "
    "Or a store without a Secret is not among those that the operator may open with its own identity.",
)  # fmt: skip
STORAGE_UNKNOWN = _reason(
    "StorageUnknown", "StorageReady, ModelConverted", "The artifact store has not been asked yet."
)
ARTIFACT_STORE_IN_USE = _reason(
    "ArtifactStoreInUse", "StorageReady",
    "The installation's folder carries another cluster's marker that is younger than a day. Nothing is collected "
    "there; give this installation its own `spec.installation`.",
)  # fmt: skip
CLUSTER_UNNAMED = _reason(
    "ClusterUnnamed", "StorageReady",
    "The folder in the artifact store is named after the uid of the namespace `kube-system`, which the operator may "
    "not read. Set `spec.installation` on the ServalSource, or allow reading (the chart's `rbac.readClusterId`); "
    "engines with `spec.model` need the latter. Looked at again by every sweep.",
)  # fmt: skip

# Degraded
AS_EXPECTED = _reason("AsExpected", "Degraded", "Nothing needs a person.")
CONVERSION_FAILED = _reason(
    "ConversionFailed",
    "Degraded",
    "The latest conversion of the wanted revision failed; see `status.lastFailure`.",
)
ROLLOUT_FAILED = _reason(
    "RolloutFailed", "Degraded",
    "The latest rollout of the wanted revision failed; what served before serves on. See `status.lastFailure`.",
)  # fmt: skip
ENGINE_GONE = _reason(
    "EngineGone", "Degraded",
    "The engine was deleted in Serval. A TranslationEngine that a person made stays, without workloads.",
)  # fmt: skip
NOT_OURS = _reason(
    "NotOurs",
    "Degraded",
    "Serval answers 403: the engine belongs to another owner than the credentials. Nothing is deleted.",
)
FOREIGN_FIELD_OWNER = _reason(
    "ForeignFieldOwner", "Degraded",
    "Somebody else changes a field of the InferenceService that this operator owns. It was taken back once; now a "
    "person has to decide. `kubectl get isvc NAME -o yaml --show-managed-fields` names the other manager.",
)  # fmt: skip
EXPOSED_EXTERNALLY = _reason(
    "ExposedExternally", "effective",
    "`serving.exposure: External`: whoever reaches the ingress may use this engine, without credentials.",
)  # fmt: skip
MASS_DELETION_HELD = _reason(
    "MassDeletionHeld", "ServalSource",
    "More engines would be deleted within an hour than the guard allows. The annotation "
    "`serval-live.dev/allow-mass-deletion: <count>` on the ServalSource releases exactly that many, once.",
)  # fmt: skip

# ServalSource: Connected
CONNECTED = _reason("Connected", "ServalSource", "Serval answers and accepts the credentials.")
SERVAL_UNREACHABLE = _reason(
    "ServalUnreachable",
    "ServalSource",
    "Nobody answered, or a proxy in Serval's place. Engines serve on; nothing is deleted or converted meanwhile.",
)
SERVAL_MISBEHAVED = _reason(
    "ServalMisbehaved", "ServalSource", "Serval answered 500, or something that it does not promise."
)
CREDENTIALS_REFUSED = _reason(
    "CredentialsRefused",
    "ServalSource",
    "The Secret is missing or lacks a key, or Serval answers 401: the key is wrong, revoked or expired.",
)
SOURCE_UNKNOWN = _reason(
    "SourceUnknown",
    "Degraded, StorageReady",
    "`spec.source.servalSource` names a ServalSource that this namespace does not have.",
)
SOURCE_MISSING = _reason(
    "SourceMissing",
    "lastFailure",
    "Serval has no archive of the wanted revision to offer although the build completed: its upload failed, or its "
    "cleanup removed the file. It is asked for again a few times.",
)

# lastFailure, where Kubernetes rather than a program of ours tells why
SUPERSEDED = _reason(
    "Superseded", "Event", "A newer revision is wanted; the Job of the older one was removed."
)
MANIFEST_MISSING = _reason(
    "ManifestMissing", "lastFailure", "The conversion Job succeeded, but left no manifest."
)
OUT_OF_MEMORY = _reason("OutOfMemory", "lastFailure", "The container was killed for memory; raise its limit.")
CONVERSION_OUT_OF_MEMORY = _reason(
    "ConversionOutOfMemory", "lastFailure",
    "The converter was killed for memory; the message has what it asked for and was allowed. It is tried once more "
    "with `ESCALATION` times as much, then given up until the next build. Raise `SOURCE_BYTES` to the size of your "
    "largest model.",
)  # fmt: skip
CONVERSION_OUT_OF_DISK = _reason(
    "ConversionOutOfDisk", "lastFailure",
    "The converter needed more ephemeral storage than its node or its limit gave; the message has the sizes. Handled "
    "as `ConversionOutOfMemory` is.",
)  # fmt: skip
DEADLINE_EXCEEDED = _reason("DeadlineExceeded", "lastFailure", "The Job ran longer than its deadline.")
EVICTED = _reason(
    "Evicted", "lastFailure", "The node evicted the pod, usually for its disk; the message says so."
)
NO_CAPACITY = _reason(
    "NoCapacity", "lastFailure", "No node had room for the new revision within the wake budget."
)
IMAGE_UNRESOLVABLE = _reason(
    "ImageUnresolvable", "lastFailure",
    "Knative's controller could not turn the tag of the predictor's image into a digest: the registry does not answer "
    "it, or wants credentials that only pods have. Name the image by digest, or give the pull secret to the service "
    "account of the pods.",
)  # fmt: skip
REVISION_FAILED = _reason(
    "RevisionFailed",
    "lastFailure",
    "Knative gave the new revision up and no pod says why; its words are in the message.",
)
MODEL_SUPERSEDED = _reason(
    "ModelSuperseded",
    "lastFailure",
    "Serval offers another revision than the one that was asked for; the next sweep follows it.",
)

MANIFEST_INVALID = _reason(
    "ManifestInvalid",
    "lastFailure",
    "A manifest breaks its schema, or names another artifact than the one it lies in.",
)
FORBIDDEN = _reason(
    "Forbidden",
    "lastFailure",
    "The operator's service account lacks a verb; the message has it. Compare its Role.",
)
REJECTED = _reason(
    "Rejected", "lastFailure",
    "The API or an admission webhook refuses the object, and will refuse it again: the message says what is wrong.",
)  # fmt: skip
WEBHOOK_UNAVAILABLE = _reason(
    "WebhookUnavailable",
    "Progressing",
    "An admission webhook, usually KServe's, does not answer; the message names it. Tried again until it does.",
)

# Events
NOT_COMPLETED = _reason(
    "NotCompleted", "Event",
    "A build was canceled or failed in Serval. It makes no model: what served before serves on, nothing is converted.",
)  # fmt: skip
CONVERSION_STARTED = _reason("ConversionStarted", "Event", "A conversion Job was made.")
ROLLOUT_STARTED = _reason("RolloutStarted", "Event", "The InferenceService names a new revision.")
PROMOTED = _reason("Promoted", "Event", "A revision passed its smoke translation and has all traffic.")
SWAPPING = _reason(
    "Swapping", "Event",
    "The new pod wants the GPU that the pod it replaces holds: the rollout changes to a swap, calls wait meanwhile.",
)  # fmt: skip
ROLLED_BACK = _reason(
    "RolledBack", "Event", "The new revision failed after the swap; the one before is applied again."
)
COLLECTED = _reason("Collected", "Event", "Artifacts that nothing names any more were deleted.")

HOPELESS = frozenset(
    {
        "BadArguments", "UnsafeArchive", "EmptyArchive", "PickleOnly", "UnsupportedArchitecture", "VocabularyMismatch",
        "BrokenConfig", "LanguagesDisagree", "LanguageNotInModel", "MissingFile", "SelfTestFailed",
    }
)  # fmt: skip
"""Failures of a conversion that the same source will show again: not tried twice."""


TOO_SMALL = frozenset({CONVERSION_OUT_OF_MEMORY, CONVERSION_OUT_OF_DISK})
"""Failures of a conversion that had too little of something."""


def markdown() -> str:
    """The page `docs/reasons.md`."""
    lines = [
        "# Reasons",
        "",
        "Generated from `engine_operator.domain.reasons`; every reason that a condition, an Event or a status shows.",
        "",
    ]
    for entry in sorted(ENTRIES, key=lambda e: e.reason):
        lines += [f"## {entry.reason}", "", f"*{entry.where}.* {entry.text}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(), end="")
