"""Artifacts in an S3 store or a folder: exact keys, checked bytes, a cache that is never half full.

Reading order: `settings`, `objects` (the seam to S3), `transfer` (parallel parts), `models` (what a predictor asks).
"""

from nllb_predictor.store.models import LocalModel, ModelStore
from nllb_predictor.store.settings import StoreSettings

__all__ = ["LocalModel", "ModelStore", "StoreSettings"]
