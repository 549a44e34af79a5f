"""The six conditions of a TranslationEngine, from facts.

`Available` says whether a call will be answered, now or after a wake; it depends neither on pods nor on the
InferenceService's own `Ready`, which turns False during every normal cold start on an autoscaled GPU pool.
"""

from datetime import datetime

from engine_operator.domain.observed import Condition, EngineStatus, Observed
from engine_operator.domain.plan import Desired
from engine_operator.domain.policy import Policy

AVAILABLE = "Available"
UP_TO_DATE = "UpToDate"
PROGRESSING = "Progressing"
MODEL_CONVERTED = "ModelConverted"
STORAGE_READY = "StorageReady"
DEGRADED = "Degraded"


def conditions_of(
    desired: Desired, observed: Observed, status: EngineStatus, now: datetime, policy: Policy
) -> tuple[Condition, ...]:
    """Return all six; times of unchanged ones are kept from `observed.status`."""
    raise NotImplementedError
