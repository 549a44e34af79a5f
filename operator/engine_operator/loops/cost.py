"""Counts pod seconds for Prometheus, from what each survey sees. A restart begins anew, as counters do."""

import time
from collections.abc import Callable

from engine_operator import metrics
from engine_operator.cluster.facts import pod_state
from engine_operator.cluster.reader import Survey


class PodSeconds:
    """Remembers when each pod was last counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: dict[tuple[str, str], float] = {}

    def count(self, namespace: str, survey: Survey) -> None:
        """Add the time since the last survey for each predictor pod that is there."""
        now = self._clock()
        seen: dict[tuple[str, str], float] = {}
        for name, objects in survey.engines.items():
            for pod in (pod_state(one) for one in objects.pods):
                if pod.knative_revision:
                    place = (namespace, pod.name)
                    seen[place] = now
                    metrics.POD_SECONDS.labels(namespace, name).inc(now - self._counted.get(place, now))
        self._counted = {place: at for place, at in self._counted.items() if place[0] != namespace} | seen
