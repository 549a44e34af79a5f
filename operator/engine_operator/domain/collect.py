"""Which artifacts may be deleted: never one that a Revision, a Pod or the InferenceService still names."""

from engine_operator.domain.actions import CollectArtifacts
from engine_operator.domain.observed import EngineStatus, Observed
from engine_operator.domain.policy import Policy
