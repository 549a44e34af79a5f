"""Converts NLLB checkpoints to CTranslate2 and serves them live over KServe's protocols."""

from importlib import metadata

try:
    __version__ = metadata.version("serval-live")
except metadata.PackageNotFoundError:
    # A copy that was never installed, such as a checkout on a bare path.
    __version__ = "0+unknown"
