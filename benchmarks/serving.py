"""A serving process and its callers, for benchmarks: started as an image starts it, called over loopback.

Everything measured runs with the highest priority that this machine allows, since ratios between two things are
worth nothing if something else takes the processor from one of them.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import ROOT
from nllb_predictor.pipeline.faults import REPEATS, longest_repeat

REFERENCES = ROOT / "tests" / "data" / "references" / "greedy.jsonl"
LISTENING = re.compile(r"listening: rest=(\d+) grpc=(\d+)")
NAME = "bench"


@dataclass(frozen=True)
class Sentence:
    """One held-out verse."""

    text: str
    source: str
    target: str


def sentences(count: int, seed: int = 1) -> list[Sentence]:
    """Held-out verses in both directions, in a fixed random order, repeated as often as needed."""
    verses = list(_verses())
    random.Random(seed).shuffle(verses)
    return [verses[number % len(verses)] for number in range(count)]


@cache
def _verses() -> tuple[Sentence, ...]:
    """Those are left out of which the tiny model makes a loop, one in a hundred: the server tries them again, which
    nothing that it is compared with does."""
    rows = [json.loads(line) for line in REFERENCES.read_text(encoding="utf-8").splitlines()]
    return tuple(
        Sentence(row["source"], row["source_language"], row["target_language"])
        for row in rows
        if longest_repeat([str(token) for token in row["output_ids"]])[0] <= REPEATS
    )


def priority(cores: str = "") -> list[str]:
    """Words before a command: highest priority if it can be had, and the cores to run on, if any are named."""
    first = ["nice", "-n", "-20"] if os.geteuid() == 0 else []
    return [*(["taskset", "-c", cores] if cores else []), *first]


def priority_of_callers(cores: str) -> None:
    """Give this process, the callers, its own cores and the same priority as the server."""
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, -20)


@dataclass(frozen=True)
class Server:
    """A predictor that is ready."""

    url: str
    process: "subprocess.Popen[bytes]"

    def body(self, sentence: Sentence, **parameters: Any) -> dict[str, Any]:
        """A v2 call for one sentence."""
        columns = {
            "text": sentence.text,
            "source_language": sentence.source,
            "target_language": sentence.target,
        }
        inputs = [
            {"name": name, "datatype": "BYTES", "shape": [1], "data": [value]}
            for name, value in columns.items()
        ]
        return {"inputs": inputs, "parameters": parameters}

    @property
    def infer(self) -> str:
        return f"{self.url}/v2/models/{NAME}/infer"

    def resident(self) -> int:
        """Bytes in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)[0]) * 1024


@contextmanager
def server(folder: Path, *flags: str, cores: str = "", timed: bool = True) -> Iterator[Server]:
    """A predictor of the model in `folder`, until the block ends; first in turn where its time is measured."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        command = [
            *(priority(cores) if timed else []),
            *(sys.executable, "-m", "nllb_predictor", "serve", str(folder), "--model-name", NAME),
            *("--host", "127.0.0.1", "--rest-port", "0", "--grpc-port", "0", "--cache-dir", scratch),
            *("--allow-any-pair", "--lame-duck-s", "0", "--log-level", "info", *flags),
        ]
        environment = {**os.environ, "SERVAL_LIVE_TERMINATION_LOG": f"{scratch}/end"}
        with log.open("wb") as file:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
        try:
            yield Server(_ready(process, log), process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """The URL, as soon as the process says ready."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        found = LISTENING.search(log.read_text(encoding="utf-8"))
        if found:
            url = f"http://127.0.0.1:{found[1]}"
            try:
                if httpx.get(url + "/v2/health/ready", timeout=5).status_code == 200:
                    return url
            except httpx.TransportError:
                pass
        time.sleep(0.05)
    raise RuntimeError(f"the predictor did not become ready:\n{log.read_text(encoding='utf-8')[-3000:]}")


@dataclass(frozen=True)
class Loop:
    """What a closed loop of clients saw."""

    clients: int
    ends: tuple[float, ...]
    """When each answer came, in seconds since the start, in order."""
    waits: tuple[float, ...]
    """Seconds of each call."""
    client_cpu: float
    """Processor seconds of the callers, all together."""

    @property
    def rate(self) -> float:
        """Answers per second in the steady state: from the n-th to the n-th last answer of n clients."""
        first, last = self.ends[self.clients - 1], self.ends[-self.clients]
        return (len(self.ends) - 2 * self.clients + 1) / (last - first)


def closed_loop(url: str, bodies: Sequence[dict[str, Any]], clients: int) -> Loop:
    """Send every body once; each client sends its next one when it has its answer. Raises for any call that fails."""
    return asyncio.run(_closed_loop(url, bodies, clients))


async def _closed_loop(url: str, bodies: Sequence[dict[str, Any]], clients: int) -> Loop:
    queue = iter(bodies)
    ends: list[float] = []
    waits: list[float] = []
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(timeout=600, limits=limits) as session:
        started, cpu = time.monotonic(), time.process_time()

        async def client() -> None:
            for body in queue:
                sent = time.monotonic()
                answer = await session.post(url, json=body)
                answer.raise_for_status()
                ends.append(time.monotonic() - started)
                waits.append(time.monotonic() - sent)

        await asyncio.gather(*(client() for _ in range(clients)))
    return Loop(clients, tuple(ends), tuple(waits), time.process_time() - cpu)


def mixed_loop(calls: Iterator[tuple[str, dict[str, Any]]], clients: int) -> int:
    """Send every call, whatever it is answered, `clients` at a time; how many there were."""

    async def loop() -> int:
        limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
        count = 0
        async with httpx.AsyncClient(timeout=600, limits=limits) as session:

            async def client() -> None:
                nonlocal count
                for url, body in calls:
                    await session.post(url, json=body)
                    count += 1

            await asyncio.gather(*(client() for _ in range(clients)))
        return count

    return asyncio.run(loop())
