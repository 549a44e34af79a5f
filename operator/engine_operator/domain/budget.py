"""One budget of time for a wake from zero nodes, and everything that is derived from it.

Both ends are fixed by others: a caller is cut at 58 to 60 s, and Knative caps the time to the first byte. So the
caller's hold cannot follow the node's boot; it is bounded, and the wake goes on without the caller. `time_chain`
derives all numbers in one place and `broken` states the inequalities between them.
"""

from dataclasses import dataclass
from datetime import timedelta

from engine_operator.domain.engine import Resources

CALLER_CUT = timedelta(seconds=58)
"""Serval's edge ends a request then, whatever we do."""

HOLD = timedelta(seconds=50)
"""How long a front end holds a caller of a sleeping engine before it answers "come back"."""

RETRY_AFTER = timedelta(seconds=5)
"""Retry-After that callers of a waking engine are told: the wake goes on without them, so asking again soon is cheap,
and a pod that became ready meanwhile must still be there."""

KNATIVE_MAX_TIMEOUT = timedelta(seconds=600)
"""Knative's `max-revision-timeout-seconds` where nobody changed it."""

KNATIVE_RESPONSE_START = timedelta(seconds=300)
"""Knative's `revision-response-start-timeout-seconds` where nobody changed it."""

KNATIVE_LONGEST_ANNOTATION = timedelta(hours=1)
"""Upper bound that Knative puts on the autoscaler's window and on pod retention."""

KNATIVE_SHORTEST_WINDOW = timedelta(seconds=6)
"""Lower bound of the autoscaler's window."""

_DOWNLOAD_BYTES_PER_SECOND = 10_000_000
_MIB = 1024 * 1024


@dataclass(frozen=True)
class WakeBudget:
    """How long each step of a cold start may take."""

    node_boot: timedelta = timedelta(minutes=8)
    image_pull: timedelta = timedelta(minutes=3)
    download: timedelta = timedelta(minutes=1)
    load: timedelta = timedelta(minutes=1)
    margin: timedelta = timedelta(minutes=2)

    @property
    def total(self) -> timedelta:
        """The wake budget."""
        return self.node_boot + self.image_pull + self.download + self.load + self.margin


@dataclass(frozen=True)
class TimeChain:
    """Every waiting time that somebody configures, derived from one budget."""

    wake: timedelta
    progress_deadline: timedelta
    """Knative gives a new revision up after this."""
    response_start: timedelta
    """Longest wait for the first byte of an answer that we ask for, as the revision's time-out."""
    first_byte: timedelta
    """How long the activator really holds a call: Knative gives every revision of KServe's its own default too, and
    KServe has no field for it."""
    hold: timedelta
    scale_down_delay: timedelta
    retry_after: timedelta
    window: timedelta
    cap_warning: str | None
    """What to tell on the ServalSource where the cluster's cap cuts the wake budget, and the command that raises it."""
    start_warning: str | None
    """The same where the default for the first byte ends a call earlier than its time-out."""


def time_chain(
    budget: WakeBudget,
    scale_down_delay: timedelta,
    window: timedelta,
    cap_seconds: int | None = None,
    start_seconds: int | None = None,
) -> TimeChain:
    """Derive the chain; None = Knative's default.

    `cap_seconds` is the cluster's `max-revision-timeout-seconds`, `start_seconds` its
    `revision-response-start-timeout-seconds`.
    """
    wake = budget.total
    cap = KNATIVE_MAX_TIMEOUT if cap_seconds is None else timedelta(seconds=cap_seconds)
    warning = None
    if cap < wake:
        seconds = int(wake.total_seconds())
        warning = (
            f"a wake may take {seconds} s, but the cluster ends a call that waits for its first byte after "
            f"{int(cap.total_seconds())} s; to raise it: kubectl patch configmap config-defaults -n knative-serving "
            f'--type merge -p \'{{"data":{{"max-revision-timeout-seconds":"{seconds}"}}}}\''
        )
    response = min(wake, cap)
    first = first_byte(response, start_seconds)
    return TimeChain(
        wake,
        wake,
        response,
        first,
        HOLD,
        scale_down_delay,
        RETRY_AFTER,
        window,
        warning,
        _start_warning(first) if first < response else None,
    )


def first_byte(response_start: timedelta, start_seconds: int | None) -> timedelta:
    """When Knative ends a call that has no first byte yet.

    Its webhook writes the cluster's default into every revision whose time-out is longer than that; 0 turns it off.
    """
    default = KNATIVE_RESPONSE_START if start_seconds is None else timedelta(seconds=start_seconds)
    return default if timedelta(0) < default < response_start else response_start


def _start_warning(first: timedelta) -> str:
    return (
        f"the cluster ends a call that waits for its first byte after {int(first.total_seconds())} s, whatever an "
        "engine's own time-out; to let that hold alone: kubectl patch configmap config-defaults -n knative-serving "
        '--type merge -p \'{"data":{"revision-response-start-timeout-seconds":"0"}}\''
    )


def broken(chain: TimeChain) -> tuple[str, ...]:
    """Inequalities that the chain breaks, each as a sentence; empty when all hold."""
    rules = (
        (chain.progress_deadline >= chain.wake, "progressDeadline must not be shorter than the wake budget"),
        (chain.response_start <= chain.wake, "responseStart must not be longer than the wake budget"),
        (chain.hold < CALLER_CUT, "the hold must end before the caller's edge cuts the request"),
        (chain.hold <= chain.first_byte, "the hold must not be longer than the time to the first byte"),
        (chain.scale_down_delay > chain.retry_after, "scaleDownDelay must be longer than Retry-After"),
        (
            chain.scale_down_delay <= KNATIVE_LONGEST_ANNOTATION,
            "scaleDownDelay must be at most 1 h (Knative)",
        ),
        (
            KNATIVE_SHORTEST_WINDOW <= chain.window <= KNATIVE_LONGEST_ANNOTATION,
            "window must lie between 6 s and 1 h (Knative)",
        ),
    )
    return tuple(sentence for holds, sentence in rules if not holds)


def conversion_deadline(source_bytes: int, budget: WakeBudget) -> int:
    """Seconds for a whole conversion Job: a node, an image, the transfers both ways, and the work itself."""
    transfer = 2 * source_bytes / _DOWNLOAD_BYTES_PER_SECOND
    work = 120 + source_bytes / 50_000_000
    waiting = budget.node_boot + budget.image_pull + budget.margin
    return int(waiting.total_seconds() + transfer + work)


def predictor_resources(base: Resources, model_bytes: int) -> Resources:
    """A profile's resources, raised to what a model of this size needs; with no size they stay as they are.

    Memory: the model itself, a 256k tokenizer and the interpreter to start; a batch on top to the limit. Disk: the
    model is downloaded whole before it is loaded. A 600M model in int8 fits the profiles as they are.
    """
    if model_bytes <= 0:
        return base
    mib = -(-model_bytes // _MIB)
    requests, limits = dict(base.requests), dict(base.limits)
    requests["memory"] = _larger(requests.get("memory"), mib + 384)
    if "memory" in limits:
        limits["memory"] = _larger(limits["memory"], int(1.1 * mib) + 3072)
    requests.setdefault("ephemeral-storage", f"{mib + 512}Mi")
    return Resources(requests, limits)


def _larger(written: str | None, mib: int) -> str:
    """The larger of a quantity of memory as profiles write it (Mi or Gi), and a number of MiB."""
    if written is None:
        return f"{mib}Mi"
    known = int(written[:-2]) * (1024 if written.endswith("Gi") else 1)
    return written if known >= mib else f"{mib}Mi"


def conversion_resources(source_bytes: int) -> Resources:
    """Memory and disk of a conversion, from the size of its source.

    Memory: the converter reads through a mapping and works within 0.6 of the checkpoint, plus the interpreter and a
    256k tokenizer. Disk: archive, its unpacked files, and the result.
    """
    memory = 512 + int(0.6 * source_bytes / _MIB)
    disk = 512 + int(3 * source_bytes / _MIB)
    return Resources(
        requests={"cpu": "500m", "memory": f"{memory}Mi", "ephemeral-storage": f"{disk}Mi"},
        limits={"memory": f"{memory + 512}Mi", "ephemeral-storage": f"{disk + 1024}Mi"},
    )
