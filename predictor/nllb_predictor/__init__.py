"""Converts NLLB checkpoints to CTranslate2 and serves them live over KServe's protocols."""
