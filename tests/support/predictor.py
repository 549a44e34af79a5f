"""A real `nllb-predictor serve` process for tests: started on free ports, watched through its own log, ended by pid.

It is the command that an image runs, in a process of its own, with an environment that holds nothing but what a test
gives. Whatever a test does, `stop` leaves no process behind.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import eventually_sync

ROOT = Path(__file__).parent.parent.parent
LISTENING = re.compile(r"listening: rest=(\d+) grpc=(\d+)")
PATIENCE = 60.0
"""Seconds; a start takes about two, on a machine that does nothing else."""


@dataclass
class Predictor:
    """One process. `name` is the v2 model name that its requests use."""

    process: "subprocess.Popen[bytes]"
    log_file: Path
    termination_log: Path
    name: str

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    @property
    def ports(self) -> tuple[int, int]:
        """REST and gRPC port, once the process listens."""
        found = LISTENING.search(self.log)
        assert found, "not listening"
        return int(found[1]), int(found[2])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    def wait_listening(self) -> "Predictor":
        eventually_sync(self._listens, timeout=PATIENCE, describe=self._dump)
        return self

    def wait_ready(self) -> "Predictor":
        self.wait_listening()
        eventually_sync(self._answers_ready, timeout=PATIENCE, describe=self._dump)
        return self

    def wait_exit(self, seconds: float = PATIENCE) -> int:
        """The exit code, as soon as the process has ended by itself."""
        eventually_sync(lambda: self.process.poll() is not None, timeout=seconds, describe=self._dump)
        assert self.process.returncode is not None
        return self.process.returncode

    def terminate(self) -> None:
        """SIGTERM, as Kubernetes sends it."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End the process, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def termination(self) -> dict[str, str]:
        """The line that it left behind."""
        line: dict[str, str] = json.loads(self.termination_log.read_text(encoding="utf-8"))
        return line

    def infer(self, body: Mapping[str, Any], **options: Any) -> httpx.Response:
        """One v2 call over REST."""
        return httpx.post(f"{self.url}/v2/models/{self.name}/infer", json=body, timeout=PATIENCE, **options)

    def _listens(self) -> bool:
        assert self.process.poll() is None, f"the process ended with {self.process.returncode}"
        return LISTENING.search(self.log) is not None

    def _answers_ready(self) -> bool:
        assert self.process.poll() is None, f"the process ended with {self.process.returncode}"
        return httpx.get(f"{self.url}/v2/health/ready", timeout=5).status_code == 200

    def _dump(self) -> str:
        return self.log[-6000:]


def start_predictor(
    folder: Path, model: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Predictor:
    """Start `nllb-predictor serve MODEL …`; logs, cache and termination line are kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log_file, termination_log = folder / "log", folder / "termination-log"
    paths = [str(ROOT / part) for part in ("predictor", "contract")]
    command = [
        *(sys.executable, "-m", "nllb_predictor", "serve", model),
        *("--host", "127.0.0.1", "--rest-port", "0", "--grpc-port", "0"),
        *("--cache-dir", str(folder / "cache"), "--lame-duck-s", "0"),
        # Two threads of one tiny batch spend their time waiting for each other on a busy test machine.
        *("--intra-threads", "1"),
        *arguments,
    ]
    names = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(paths)}
    variables = {"SERVAL_LIVE_TERMINATION_LOG": str(termination_log), **(environment or {})}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=names | variables, stdin=subprocess.DEVNULL
        )
    name = dict(zip(arguments, list(arguments)[1:], strict=False)).get("--model-name", "nllb")
    return Predictor(process, log_file, termination_log, name)
