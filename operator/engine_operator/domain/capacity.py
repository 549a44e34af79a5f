"""Who may have pods when there is not room for all: quotas, the order of those who wait, and whom to keep awake.

Pure. Calls are never refused: a call wakes its engine whatever a quota says, since nothing of ours stands in its way.
A quota bounds what is started without a caller (rollouts, warm windows, engines that are kept awake), and the warm
budget decides which engines stay awake although nobody calls: those that were used last.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Quota:
    """`spec.quota` of a ServalSource; None sets no bound."""

    awake_engines: int | None = None
    pods: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Taken:
    """What engines have right now, or want."""

    engines: int = 0
    """Engines with at least one pod."""
    pods: int = 0
    gpus: int = 0

    def __add__(self, other: "Taken") -> "Taken":
        return Taken(self.engines + other.engines, self.pods + other.pods, self.gpus + other.gpus)


def taken_by(pods: int, gpus_per_pod: int) -> Taken:
    """What one engine with so many pods takes."""
    return Taken(min(pods, 1), pods, pods * gpus_per_pod)


def shortage(quota: Quota, others: Taken, own: Taken) -> str | None:
    """Why an engine may not have `own` beside what the others of its source have; None if it may.

    The sentence names no count of the others: it stays while they come and go.
    """
    rules = (
        ("awakeEngines", quota.awake_engines, others.engines, own.engines),
        ("pods", quota.pods, others.pods, own.pods),
        ("gpus", quota.gpus, others.gpus, own.gpus),
    )
    for name, bound, there, wanted in rules:
        if bound is None or there + wanted <= bound:
            continue
        if wanted > bound:
            return f"quota.{name} is {bound}, and this engine alone needs {wanted}"
        return f"quota.{name} is {bound}, and other engines leave less than the {wanted} that this one needs"
    return None


def bounded_replicas(wished: int, quota: Quota, gpus_per_pod: int) -> int:
    """Most pods of one engine: no more than its source's quota, and one at least."""
    bounds = [wished]
    if quota.pods is not None:
        bounds.append(quota.pods)
    if quota.gpus is not None and gpus_per_pod > 0:
        bounds.append(quota.gpus // gpus_per_pod)
    return max(1, min(bounds))


@dataclass(frozen=True)
class WarmBudget:
    """`spec.warmBudget` of a ServalSource."""

    engines: int
    """Engines that are kept awake although nobody calls; pinned ones count."""
    min_residency: timedelta = timedelta(minutes=10)
    """An engine that woke later than this ago does not lose its place to another."""


@dataclass(frozen=True)
class Resident:
    """One engine that may be kept awake."""

    name: str
    awake_since: datetime | None = None
    """When its oldest pod was made; None while it sleeps."""
    last_used: datetime | None = None
    """Its last call; None where its pods could not be asked."""
    pinned: bool = False


def kept_awake(
    residents: Iterable[Resident], budget: WarmBudget, waiting: int, now: datetime
) -> frozenset[str]:
    """Names of the engines to keep awake; whoever is not among them sleeps when its scale-down delay is over.

    Pinned engines always. Then, as far as the budget goes, engines that are awake: first those within their least
    residency, then those that were used last. Each engine that `waiting` counts (it waits for room in the quota)
    takes a place away, and so evicts the one that was used longest ago. Nobody is woken by this.
    """
    everyone = list(residents)
    pinned = {one.name for one in everyone if one.pinned}
    awake = [one for one in everyone if not one.pinned and one.awake_since is not None]
    places = max(0, budget.engines - len(pinned) - waiting)

    def right(one: Resident) -> tuple[bool, datetime, str]:
        assert one.awake_since is not None, "only awake ones are compared"
        resident = now - one.awake_since < budget.min_residency
        return resident, max(one.awake_since, one.last_used or one.awake_since), one.name

    ordered = sorted(awake, key=right, reverse=True)
    return frozenset(pinned | {one.name for one in ordered[:places]})


@dataclass(frozen=True)
class Gpu:
    """`serving.gpu`: what a pod of profile `gpu` asks its node for."""

    resource: str = "nvidia.com/gpu"
    count: int = 1
