"""Numbers for Prometheus, beside those that the SDK's model class keeps (`request_predict_seconds` and its kin)."""

from prometheus_client import Counter, Gauge, Histogram

from nllb_predictor.server.lifecycle import Lifecycle

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
BATCH_SECONDS = Histogram("serval_live_batch_seconds", "Time of a batch in the engine.")


def batch(segments: int, seconds: float) -> None:
    """Count one batch."""
    BATCH_SIZE.observe(segments)
    BATCH_SECONDS.observe(seconds)


def observe(lifecycle: Lifecycle) -> None:
    """Set the gauges to what holds now; called when somebody asks."""
    loaded = lifecycle.loaded
    QUEUE.set(loaded.scheduler.waiting if loaded else 0)
    RUNNING.set(lifecycle.running)
    READY.set(lifecycle.ready)
    for phase, seconds in lifecycle.phases.items():
        PHASE.labels(phase).set(seconds)
