"""Converts NLLB checkpoints to CTranslate2 and serves them live over KServe's protocols."""

import os
from importlib import metadata

# OpenMP reads this once, when CTranslate2 is first imported, so it stands here. Its default lets threads that wait for
# each other spin. As soon as anything else wants the cores (another container, a server's own event loop) spinning
# threads take the time of those that they wait for: one sentence of the tiny model on two busy cores took 33 s instead
# of 1.5 s. Whoever sets the variable has the last word.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    __version__ = metadata.version("serval-live")
except metadata.PackageNotFoundError:
    # A copy that was never installed, such as a checkout on a bare path.
    __version__ = "0+unknown"
