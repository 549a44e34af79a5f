"""The numbers that decisions depend on, as one record; settings fill it, tests scale it."""

from dataclasses import dataclass, field
from datetime import timedelta

from engine_operator.domain.backoff import Backoff
from engine_operator.domain.budget import WakeBudget
from engine_operator.domain.deletion import DeletionRule
from engine_operator.domain.mode import ServingMode


@dataclass(frozen=True)
class Policy:
    """How the operator behaves, besides what people write per engine."""

    converter_image: str
    """Image of conversion Jobs, by digest."""
    backoff: Backoff = field(default_factory=Backoff)
    """Of conversions."""
    rollout_backoff: Backoff = field(default_factory=lambda: Backoff(factor=4.0, max_attempts=4))
    """Of rollouts: three more tries and no more, each later by far, since every one wakes a pod and perhaps a node."""
    budget: WakeBudget = field(default_factory=WakeBudget)
    deletion: DeletionRule = field(default_factory=DeletionRule)
    max_rolling: int = 3
    """Engines that roll out at once: each wakes a pod, perhaps a node."""
    max_converting: int = 3
    """Conversion Jobs at once."""
    roll_release: bool = False
    """Roll live engines onto this release's image, `max_rolling` at a time; otherwise an engine takes the new image
    with its next model, so that an upgrade of the operator restarts nothing."""
    auto_swap_after: timedelta = timedelta(seconds=60)
    """Strategy Auto: how long a new pod may want the GPU of the pod it replaces before they swap."""
    device_release: timedelta = timedelta(minutes=2)
    """How long a GPU may be told to be full by a pod that has just been given it: the one before still frees it."""
    source_url_lifetime: timedelta = timedelta(minutes=50)
    """A presigned URL older than this is replaced while its Job has not started (Serval's last 60 minutes)."""
    keep_previous: int = 1
    """Good revisions kept besides the serving one."""
    stale_attempt_age: timedelta = timedelta(hours=24)
    """An attempt folder that no manifest names is collected at this age."""
    assumed_source_bytes: int = 2_600_000_000
    """Size of a model archive before anybody has seen it: the 600M model's."""
    escalation: float = 2.0
    """A conversion that ran out of memory or disk is tried once more as if its model were this many times larger;
    1: it is not."""
    image_pull_secrets: tuple[str, ...] = field(default=())
    """For conversion Jobs and, where an engine names none, for predictors."""
    mode: ServingMode = field(default_factory=ServingMode)
    """How KServe runs all engines."""
    workload_service_account: str = ""
    """Of Jobs and predictors; empty = the namespace's `default`."""
