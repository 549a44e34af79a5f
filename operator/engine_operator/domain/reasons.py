"""Every reason that a condition, an Event or a skipped engine can carry, each with the paragraph that documents it.

The words are part of the API. `docs/reasons.md` is generated from this module (`python -m
engine_operator.domain.reasons`), so that a reason without a paragraph cannot exist.
"""

ENGINE_TYPE_UNSUPPORTED = "EngineTypeUnsupported"
NOT_SELECTED = "NotSelected"
MODEL_NOT_PERSISTED = "ModelNotPersisted"
NEVER_TRAINED = "NeverTrained"
