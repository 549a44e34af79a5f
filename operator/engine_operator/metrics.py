"""Figures for Prometheus. Names begin with `serval_live_`; the words of labels are those of conditions and actions.

Label `engine` is used only where an engine is the point of the figure, since accounts can have a thousand of them.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

LEADING = Gauge("serval_live_leading", "1 while this process holds the Lease.", registry=REGISTRY)
ENGINES = Gauge(
    "serval_live_engines",
    "Engines of a source: seen in Serval, servable, serving (asleep or not), awake.",
    ["namespace", "source", "state"],
    registry=REGISTRY,
)
SERVAL_REACHABLE = Gauge(
    "serval_live_serval_reachable",
    "1 if the last answer of this source's Serval was one.",
    ["namespace", "source"],
    registry=REGISTRY,
)
EVENTS = Counter(
    "serval_live_build_events_total",
    "Finished builds that the long poll announced, by state.",
    ["namespace", "source", "state"],
    registry=REGISTRY,
)
MISSED_EVENTS = Counter(
    "serval_live_missed_builds_total",
    "New model revisions that a sweep found and no poll had announced.",
    ["namespace", "source"],
    registry=REGISTRY,
)
POLL_FAILURES = Counter(
    "serval_live_poll_failures_total",
    "Long polls that ended in a failure, by kind.",
    ["namespace", "source", "kind"],
    registry=REGISTRY,
)
SWEEPS = Histogram(
    "serval_live_sweep_seconds",
    "Duration of a sweep of one source.",
    ["namespace", "source"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300),
    registry=REGISTRY,
)
ACTIONS = Counter("serval_live_actions_total", "Actions carried out, by kind.", ["action"], registry=REGISTRY)
ACTION_FAILURES = Counter(
    "serval_live_action_failures_total",
    "Actions that failed, by kind and reason.",
    ["action", "reason"],
    registry=REGISTRY,
)
LAG = Histogram(
    "serval_live_build_to_serving_seconds",
    "From the end of a build to its revision serving, by phase: notice, convert, wait (for a place), rollout, total.",
    ["phase"],
    buckets=(1, 3, 10, 30, 60, 120, 300, 600, 1200, 3600),
    registry=REGISTRY,
)
PLAN_ACTIONS = Histogram(
    "serval_live_plan_actions",
    "Actions of one plan: a plan for an engine that is as wanted has none.",
    buckets=(0, 1, 2, 3, 5, 8, 13),
    registry=REGISTRY,
)
PLANNED = Gauge(
    "serval_live_engines_planned",
    "Engines that this process has made a plan for since it leads: all of them soon after a start.",
    registry=REGISTRY,
)
API_WRITES = Counter(
    "serval_live_api_writes_total",
    "Writes that the API server accepted, by verb and kind (plural).",
    ["verb", "kind"],
    registry=REGISTRY,
)
RETRIES = Counter(
    "serval_live_retries_total",
    "Further attempts at a conversion or a rollout, by the reason of the failure before.",
    ["reason"],
    registry=REGISTRY,
)
POD_SECONDS = Counter(
    "serval_live_pod_seconds_total",
    "Seconds that predictor pods of an engine existed while this process watched: what it cost.",
    ["namespace", "engine"],
    registry=REGISTRY,
)
FIELD_CONFLICTS = Counter(
    "serval_live_field_conflicts_total",
    "Applies that met another owner of a field of ours.",
    registry=REGISTRY,
)
FOREIGN_REVISIONS = Counter(
    "serval_live_foreign_revisions_total",
    "Knative revisions of our engines that no write of ours led to: each is a model that starts again.",
    ["namespace"],
    registry=REGISTRY,
)
LOOP_LAG = Gauge(
    "serval_live_loop_lag_seconds",
    "How late the event loop runs a timer: above 0.25 something blocks it.",
    registry=REGISTRY,
)
WATCH_AGE = Gauge(
    "serval_live_watch_age_seconds",
    "Since a watch last delivered an event or a bookmark, which the API server sends every minute.",
    ["resource"],
    registry=REGISTRY,
)
"""Follows the clock by itself once `watch_delivered` has been called for a resource."""

_delivered: dict[str, float] = {}


def watch_delivered(resource: str) -> None:
    """A list was read, or a watch delivered something, of this kind (plural)."""
    known = resource in _delivered
    _delivered[resource] = time.monotonic()
    if not known:
        WATCH_AGE.labels(resource).set_function(lambda: time.monotonic() - _delivered[resource])
