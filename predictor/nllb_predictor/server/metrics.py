"""Numbers for Prometheus, beside those that the SDK's model class keeps (`request_predict_seconds` and its kin).

Labels are few and from closed lists. No text, key, address or caller ever becomes one.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from nllb_predictor.server.lifecycle import Lifecycle

if TYPE_CHECKING:
    from nllb_predictor.engine.scheduler import BatchReport

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From a tiny model to a book on a CPU."""

REQUESTS = Counter(
    "serval_live_requests_total",
    "Calls by protocol (v1, v2, grpc) and outcome: OK, or the reason of the error.",
    ["protocol", "outcome"],
)
SEGMENTS = Counter("serval_live_segments_total", "Segments that were answered.")
QUEUE = Gauge("serval_live_queue_segments", "Segments that wait for a batch.")
RUNNING = Gauge("serval_live_running_requests", "Calls that are being answered.")
READY = Gauge("serval_live_ready", "1 while this process takes traffic.")
PHASE = Gauge("serval_live_phase_seconds", "Seconds of each phase of this process's start.", ["phase"])
BATCH_SIZE = Histogram(
    "serval_live_batch_segments", "Segments per batch.", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
)
BATCH_TOKENS = Histogram(
    "serval_live_batch_tokens",
    "Tokens per batch, read and written.",
    buckets=(16, 64, 256, 1024, 4096, 16384, 65536),
)
BATCH_SECONDS = Histogram("serval_live_batch_seconds", "Time of a batch in the engine.", buckets=SECONDS)
WAIT_SECONDS = Histogram(
    "serval_live_queue_wait_seconds", "Time that a segment waited for its batch.", buckets=SECONDS
)
READ_TOKENS = Counter("serval_live_source_tokens_total", "Tokens that the engine read.")
DECODE_TOKENS = Counter("serval_live_decode_tokens_total", "Tokens that the engine wrote, best hypotheses.")
WARNINGS = Counter("serval_live_warnings_total", "Warnings that answers carried, by kind.", ["kind"])
UNKNOWN_RATE = Gauge(
    "serval_live_unknown_rate",
    "Share of all characters sent that the model cannot read, since it was loaded.",
)
MEMORY = Gauge("serval_live_memory_bytes", "Memory of this process and so of its engine.", ["kind"])


def batch(report: "BatchReport") -> None:
    """Count one batch."""
    BATCH_SIZE.observe(report.segments)
    BATCH_TOKENS.observe(report.source_tokens + report.new_tokens)
    BATCH_SECONDS.observe(report.seconds)
    for wait in report.waits:
        WAIT_SECONDS.observe(wait)
    READ_TOKENS.inc(report.source_tokens)
    DECODE_TOKENS.inc(report.new_tokens)


def warned(kind: str, count: int = 1) -> None:
    """Count warnings of one kind: a word of `WarningKind`, never text of a caller."""
    WARNINGS.labels(str(kind)).inc(count)


def memory(status: Path = Path("/proc/self/status")) -> dict[str, int]:
    """Bytes by kind: `resident` is all that is in memory, `anonymous` what is not read from files."""
    names = {"VmRSS": "resident", "RssAnon": "anonymous"}
    found: dict[str, int] = {}
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        name, _, value = line.partition(":")
        if name in names:
            found[names[name]] = int(value.split()[0]) * 1024
    return found


def observe(lifecycle: Lifecycle) -> None:
    """Set the gauges to what holds now; called when somebody asks."""
    loaded = lifecycle.loaded
    QUEUE.set(loaded.scheduler.waiting if loaded else 0)
    RUNNING.set(lifecycle.running)
    UNKNOWN_RATE.set(loaded.service.unknown.rate if loaded else 0)
    READY.set(lifecycle.ready)
    for phase, seconds in lifecycle.phases.items():
        PHASE.labels(phase).set(seconds)
    for kind, size in memory().items():
        MEMORY.labels(kind).set(size)
