"""Which Knative revisions nobody here asked for: the alarm of a cluster that restarts every model by itself.

An upgrade of KServe that renders services anew, a webhook that changes its defaults, another controller with another
config: each makes a revision, and each revision loads a model, perhaps on a GPU. The operator answers with no write;
it counts. One of our applies leads to one revision; every further one under the same template is foreign. Pure but for
its memory; what happened before this process began is not told.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine_operator.domain.observed import Observed, RevisionState, ServiceState


@dataclass
class _Seen:
    """Of one engine."""

    template: str
    names: set[str] = field(default_factory=set)
    """Revisions that are accounted for."""
    expected: int = 0
    """Applies of ours that have led to no revision yet."""


class Churn:
    """Remembers the revisions of each engine."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def foreign(self, engine: tuple[str, str], observed: Observed) -> tuple[str, ...]:
        """Names of revisions that are new in this look and were made by no apply of ours."""
        status, names = observed.status, {one.name for one in observed.revisions}
        template = status.applied.template_hash if status.applied else ""
        seen = self._seen.get(engine)
        if not template or observed.service is None or observed.service.deleting:
            self._seen.pop(engine, None)
            return ()
        if seen is None:
            self._seen[engine] = _Seen(template, names, int(_awaited(observed.service, observed.revisions)))
            return ()
        if seen.template != template:
            seen.template, seen.expected = template, seen.expected + 1
        new = sorted(names - seen.names)
        ours = min(len(new), seen.expected)
        seen.names, seen.expected = names, seen.expected - ours
        return tuple(new[ours:])


def _awaited(service: ServiceState, revisions: Iterable[RevisionState]) -> bool:
    """At the start: whether the revision of the last apply is still to come."""
    wish = (service.manifest_sha256, service.attempt, service.initial_scale)
    return all((one.manifest_sha256, one.attempt, one.initial_scale) != wish for one in revisions)
