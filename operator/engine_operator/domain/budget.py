"""One budget of time for a wake from zero nodes, and everything that is derived from it.

Both ends are fixed by others: a caller is cut at 58 to 60 s, and Knative caps the time to the first byte. So the
caller's hold cannot follow the node's boot; it is bounded, and the wake goes on without the caller.
"""

from dataclasses import dataclass
from datetime import timedelta


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
