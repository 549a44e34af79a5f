"""A caller that never stops, and counts what a person behind it would call a failure.

At least eight connections, half of them kept alive and half new for each call, at least 20 calls a second, 60 s of
patience. A call fails if it is not answered with 200, if the answer is not what the revision that it names says, or
if it names a revision older than one already seen on that connection.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

MINIMUM_CALLS = 1_000
"""Fewer calls make a run invalid as evidence of "no failed call"."""


@dataclass(frozen=True)
class Answer:
    """One answered call."""

    revision: int
    translation: str


@dataclass
class Calls:
    """What one run of the caller saw. Times in seconds."""

    total: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    by_revision: dict[int, int] = field(default_factory=dict)
    first_seen: dict[int, float] = field(default_factory=dict)

    def saw(self, answer: Answer, seconds: float) -> None:
        """Record one good answer."""
        self.by_revision[answer.revision] = self.by_revision.get(answer.revision, 0) + 1
        self.first_seen.setdefault(answer.revision, time.time())
        self.longest = max(self.longest, seconds)


References = Mapping[int, Mapping[str, str]]
"""revision -> sentence -> the translation that this revision gives, from a source other than the served answers."""


async def infer(client: httpx.AsyncClient, url: str, model: str, text: str) -> Answer:
    """One v2 call; raises httpx's errors, and ValueError for an answer that is not a translation."""
    body = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}]}
    response = await client.post(f"{url}/v2/models/{model}/infer", json=body)
    if response.status_code != 200:
        raise ValueError(f"HTTP {response.status_code}: {response.text[:300]}")
    document = response.json()
    outputs = {output["name"]: output["data"] for output in document["outputs"]}
    return Answer(int(document["model_version"]), outputs["translation"][0])


class Caller:
    """Calls an engine until told to stop."""

    def __init__(self, url: str, model: str, sentences: Sequence[str], references: References) -> None:
        self.url = url
        self.model = model
        self.sentences = sentences
        self.references = references
        self.calls = Calls()
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, connections: int = 8, calls_per_second: float = 24.0, patience: float = 60.0) -> None:
        """Begin calling in the background."""
        pause = connections / calls_per_second
        self._tasks = [asyncio.create_task(self._connection(n, pause, patience)) for n in range(connections)]

    async def stop(self) -> Calls:
        """Finish the calls under way and return what was seen."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        return self.calls

    async def _connection(self, number: int, pause: float, patience: float) -> None:
        keep_alive = number % 2 == 0
        newest = 0
        client = httpx.AsyncClient(timeout=patience)
        turn = number
        while not self._stop.is_set():
            if not keep_alive:
                await client.aclose()
                client = httpx.AsyncClient(timeout=patience)
            started = time.monotonic()
            newest = await self._call(client, self.sentences[turn % len(self.sentences)], newest)
            turn += 1
            rest = pause - (time.monotonic() - started)
            if rest > 0:
                await asyncio.sleep(rest)
        await client.aclose()

    async def _call(self, client: httpx.AsyncClient, text: str, newest: int) -> int:
        started = time.monotonic()
        self.calls.total += 1
        try:
            answer = await infer(client, self.url, self.model, text)
        except (httpx.HTTPError, ValueError, KeyError) as error:
            self.calls.failures.append(f"{type(error).__name__}: {error}")
            return newest
        self.calls.saw(answer, time.monotonic() - started)
        expected = self.references.get(answer.revision, {}).get(text)
        if answer.translation != expected:
            said = f"revision {answer.revision} said {answer.translation!r}, not {expected!r}"
            self.calls.failures.append(said)
        if answer.revision < newest:
            self.calls.failures.append(
                f"revision {answer.revision} answered after {newest} on one connection"
            )
        return max(newest, answer.revision)
