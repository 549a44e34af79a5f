"""Who translates for a command: a running server by its URL, or a model that this process loads itself.

Both are asked in the words of the v2 contract, so that a command cannot do what a client could not. A busy server is
waited for as long as it asks; a request that it refuses is told in the server's own words.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from nllb_predictor.errors import CallFailed, UsageError
from nllb_predictor.settings import ServeSettings

CHUNK = 64
"""Lines in one call: the most that one batch holds."""

PATIENCE_SECONDS = 600.0
"""Longest wait for a server that says it is busy or not ready."""

BUSY = (429, 503)


@dataclass(frozen=True)
class How:
    """What is asked of each call."""

    source: str | None = None
    target: str | None = None
    beams: int | None = None
    hypotheses: int = 1

    def body(self, lines: Sequence[str]) -> dict[str, Any]:
        """A v2 request for these lines."""
        inputs = [_tensor("text", list(lines))]
        for name, code in (("source_language", self.source), ("target_language", self.target)):
            if code is not None:
                inputs.append(_tensor(name, [code]))
        parameters: dict[str, Any] = {"priority": "bulk"}
        if self.beams is not None:
            parameters["beam_size"] = self.beams
        if self.hypotheses > 1:
            parameters["num_hypotheses"] = self.hypotheses
        names = ("translation", "score", "warnings")
        return {"inputs": inputs, "outputs": [{"name": name} for name in names], "parameters": parameters}


@dataclass(frozen=True)
class Line:
    """The answer for one line: alternatives with their scores, best first, and what may be wrong."""

    alternatives: tuple[tuple[str, float], ...]
    warnings: tuple[dict[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The best translation, on one line."""
        return " ".join(self.alternatives[0][0].splitlines())

    def as_json(self) -> dict[str, Any]:
        return {
            "translation": self.text,
            "score": self.alternatives[0][1],
            "alternatives": [{"translation": text, "score": score} for text, score in self.alternatives],
            "warnings": list(self.warnings),
        }


class Backend(Protocol):
    """Translates some lines in one call."""

    name: str
    """As a person knows it: the URL or folder."""

    def translate(self, lines: Sequence[str], how: How) -> list[Line]:
        """One answer for each line. Raises PredictorError's family."""

    def close(self) -> None:
        """Give back what it holds."""


def open_backend(place: str, model_name: str | None = None) -> Backend:
    """`http://…` or `https://…` is a server, anything else a model: folder, archive or s3:// artifact.

    Raises what loading a model raises, and CallFailed.
    """
    if urlsplit(place).scheme in ("http", "https"):
        return Remote(place, model_name)
    return Local(place)


class Remote:
    """A server of the v2 protocol."""

    def __init__(
        self, url: str, model_name: str | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        import urllib3

        self.name = url
        self._sleep = sleep
        self._base = url.rstrip("/")
        self._http = urllib3.PoolManager(timeout=urllib3.Timeout(connect=10, read=400), retries=False)
        self._model = model_name or self._only_model()

    def translate(self, lines: Sequence[str], how: How) -> list[Line]:
        answer = self._call("POST", f"/v2/models/{quote(self._model, safe='')}/infer", how.body(lines))
        return lines_of({output["name"]: output for output in answer["outputs"]})

    def close(self) -> None:
        self._http.clear()

    def _only_model(self) -> str:
        models = self._call("GET", "/v2/models").get("models") or []
        if not models:
            raise CallFailed(f"{self.name} names no model.", hint="Give its name with --model-name.")
        return str(models[0])

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import urllib3

        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                response = self._http.request(method, self._base + path, json=body)
            except urllib3.exceptions.HTTPError as error:
                raise CallFailed(f"{self.name} does not answer ({type(error).__name__}).") from error
            if response.status == 200:
                return _object(response.data, self.name)
            wait = _wait(response.headers.get("retry-after"))
            if response.status not in BUSY or time.monotonic() + wait > give_up:
                raise CallFailed(f"{self.name} answers {response.status}: {_words(response.data)}")
            self._sleep(wait)


class Local:
    """A model in this process, without ports."""

    def __init__(self, place: str, environment: dict[str, str] | None = None) -> None:
        from nllb_predictor.server.lifecycle import Lifecycle, PhaseName
        from nllb_predictor.server.loading import load
        from nllb_predictor.server.wire.contract import Defaults
        from nllb_predictor.settings import from_sources

        settings: ServeSettings = from_sources(
            {"model_uri": place, "allow_any_pair": True, "timeout_ms": 300_000}, environment
        )
        lifecycle = Lifecycle()
        # There are no ports that the tokenizer would have to wait for.
        lifecycle.since_start(PhaseName.PYTHON)
        self.name = place
        self._loaded = load(settings, lifecycle)
        self._defaults = Defaults.of(settings)
        self._loop = asyncio.new_event_loop()

    def translate(self, lines: Sequence[str], how: How) -> list[Line]:
        from nllb_predictor.server.wire import contract, outputs, rest_v2

        call = rest_v2.decode(json.dumps(how.body(lines)).encode(), {})
        asks = outputs.asked_outputs(call.outputs)
        request = contract.request_of(call, self._defaults, outputs.wants_of(asks))
        answers = self._loop.run_until_complete(self._loaded.service.translate(request))
        tensors = outputs.tensors_of(answers, asks)
        return lines_of({each.name: {"shape": list(each.shape), "data": list(each.data)} for each in tensors})

    def close(self) -> None:
        self._loaded.scheduler.close()
        self._loaded.service.close()
        self._loop.close()


def lines_of(outputs: dict[str, dict[str, Any]]) -> list[Line]:
    """The answers in the outputs of a v2 call. Cells of hypotheses that do not exist are empty text."""
    texts, scores = outputs["translation"]["data"], outputs["score"]["data"]
    count, width = outputs["translation"]["shape"]
    warnings = outputs.get("warnings", {}).get("data") or ["[]"] * count
    found = []
    for row in range(count):
        cells = list(zip(texts[row * width : (row + 1) * width], scores[row * width :], strict=False))
        alternatives = tuple(
            (text, float(score)) for place, (text, score) in enumerate(cells) if text or not place
        )
        found.append(Line(alternatives, tuple(json.loads(warnings[row]))))
    return found


def how_of(arguments: argparse.Namespace, hypotheses: int = 1) -> How:
    """The record of these options. Raises UsageError."""
    if hypotheses < 1:
        raise UsageError(f"--hypotheses must be at least 1, not {hypotheses}.")
    return How(arguments.source_language, arguments.target_language, arguments.beam_size, hypotheses)


def _tensor(name: str, data: list[str]) -> dict[str, Any]:
    return {"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CallFailed(
            f"{name} answers something that is no JSON object.", hint="Is it a KServe v2 server?"
        )
    return value


def _words(data: bytes) -> str:
    """The server's message, with its hint."""
    try:
        value = json.loads(data)
        return f"{value['error']} {value.get('hint', '')}".strip()
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace").strip() or "(nothing)"


def _wait(header: str | None) -> float:
    return min(60.0, max(0.2, float(header))) if header and header.strip().isdigit() else 1.0
