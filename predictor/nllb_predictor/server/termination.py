"""The one JSON line that a process leaves behind when it ends by failure.

Kubernetes reads it from the container's termination log, and KServe copies it into the status of the
InferenceService. Without it that status says only that the container failed.
"""

import json
import logging
from pathlib import Path

from nllb_predictor.errors import PredictorError

log = logging.getLogger(__name__)

MAX_MESSAGE = 2000
"""Characters; Kubernetes keeps 4,096 bytes of the file."""


def write(path: str, error: PredictorError) -> None:
    """Write `{"reason", "message"}`; a log that cannot be written must not hide the failure itself."""
    line = json.dumps({"reason": error.reason, "message": str(error)[:MAX_MESSAGE]}, ensure_ascii=False)
    try:
        Path(path).write_text(line + "\n", encoding="utf-8")
    except OSError as problem:
        log.info("no termination log: path=%s problem=%s", path, problem.strerror)
