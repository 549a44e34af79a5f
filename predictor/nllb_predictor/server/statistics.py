"""What this process has done so far, in the words of Triton's statistics, configuration and repository extensions.

Plain dictionaries with the extension's own field names: REST sends them as JSON, gRPC fills its messages from them,
so that both tell the same.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nllb_predictor.engine.scheduler import BatchReport
    from nllb_predictor.server.wire.contract import TensorSpec

NANO = 1_000_000_000
DATA_TYPES = {"BYTES": "TYPE_STRING", "FP32": "TYPE_FP32", "INT32": "TYPE_INT32"}


@dataclass
class _Sum:
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        self.count += count
        self.seconds += seconds

    def facts(self) -> dict[str, int]:
        return {"count": self.count, "ns": int(self.seconds * NANO)}


class Statistics:
    """Sums since the start. Safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._success, self._fail, self._queue, self._infer = _Sum(), _Sum(), _Sum(), _Sum()
        self._sizes: dict[int, _Sum] = {}
        self._last = 0.0

    @property
    def requests(self) -> int:
        """Calls that were answered or refused."""
        with self._lock:
            return self._success.count + self._fail.count

    def request(self, ok: bool, seconds: float) -> None:
        """A call was answered or refused after `seconds`."""
        with self._lock:
            (self._success if ok else self._fail).add(seconds)
            if ok:
                self._last = time.time()

    def batch(self, report: "BatchReport") -> None:
        """The engine computed a batch."""
        with self._lock:
            self._queue.add(sum(report.waits), report.segments)
            self._infer.add(report.seconds * report.segments, report.segments)
            self._sizes.setdefault(report.segments, _Sum()).add(report.seconds)

    def facts(self, name: str, version: str) -> dict[str, Any]:
        """The answer to "statistics"."""
        with self._lock:
            none = _Sum().facts()
            return {
                "name": name,
                "version": version,
                "last_inference": int(self._last * 1000),
                "inference_count": self._infer.count,
                "execution_count": sum(size.count for size in self._sizes.values()),
                "inference_stats": {
                    "success": self._success.facts(),
                    "fail": self._fail.facts(),
                    "queue": self._queue.facts(),
                    "compute_input": none,
                    "compute_infer": self._infer.facts(),
                    "compute_output": none,
                },
                "batch_stats": [
                    {"batch_size": size, "compute_infer": each.facts()}
                    for size, each in sorted(self._sizes.items())
                ],
            }


def configuration(
    name: str, inputs: "Sequence[TensorSpec]", outputs: "Sequence[TensorSpec]"
) -> dict[str, Any]:
    """The answer to "model configuration". `max_batch_size` 0: the first dimension belongs to the shapes."""
    return {
        "name": name,
        "platform": "ctranslate2",
        "backend": "ctranslate2",
        "max_batch_size": 0,
        "input": [_port(spec) | ({"optional": True} if number else {}) for number, spec in enumerate(inputs)],
        "output": [_port(spec) for spec in outputs],
    }


def _port(spec: "TensorSpec") -> dict[str, Any]:
    return {"name": spec.name, "data_type": DATA_TYPES[spec.datatype], "dims": list(spec.shape)}


def index(names: Sequence[str], version: str, ready: bool, reason: str) -> list[dict[str, str]]:
    """The answer to "repository index": one row for each name that requests may use."""
    state = "READY" if ready else "UNAVAILABLE"
    row = {"version": version, "state": state} | ({} if ready else {"reason": reason})
    return [{"name": name, **row} for name in names]
