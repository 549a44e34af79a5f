"""The KServe model and data plane: what the SDK's server asks, answered truthfully.

The SDK's data plane says ready with no model at all, loads models inside a request, and reports an unready model as
UNKNOWN. This one asks the lifecycle for everything, answers under the served names only, and runs a call the same
way whichever protocol it came by.
"""

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nllb_predictor.errors import NotReady, UnknownModel
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.server import metrics, statistics
from nllb_predictor.server.calls import Call, Calls
from nllb_predictor.server.lifecycle import Lifecycle, Served
from nllb_predictor.server.loading import Loaded
from nllb_predictor.server.sdk import DataPlane, Model, ModelRepository
from nllb_predictor.server.wire import contract, outputs
from nllb_predictor.server.wire.contract import Defaults, Rows, TensorSpec
from nllb_predictor.server.wire.tensors import InferAnswer, InferCall, OutputAsk
from nllb_predictor.version import package_version

T = TypeVar("T")

PLATFORM = "ctranslate2"
LARGE = 1 << 16
"""Bytes of a message above which it is read and written beside the event loop: about a millisecond of work."""

MANY = 64
"""Segments above which their answer is put together beside the event loop."""
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")


@dataclass(frozen=True)
class Asked:
    """A call, and the inputs of single texts where they did not come as tensors (v1)."""

    call: InferCall
    rows: Rows | None = None


@dataclass(frozen=True)
class Answered:
    """Results and the outputs that were asked for, in order."""

    answer: InferAnswer
    asks: tuple[OutputAsk, ...]

    @property
    def large(self) -> bool:
        """Whether writing it takes long."""
        values = (value for tensor in self.answer.outputs for value in tensor.data)
        return sum(len(value) if isinstance(value, str) else 8 for value in values) > LARGE


async def computed(heavy: bool, compute: Callable[[], T]) -> T:
    """What `compute` returns; on another thread where it takes long, since nobody else is answered meanwhile."""
    return await asyncio.to_thread(compute) if heavy else compute()


class NllbModel(Model):  # type: ignore[misc]
    """The one model of this process, under its name and under the engine id."""

    def __init__(self, served: Served, lifecycle: Lifecycle, defaults: Defaults) -> None:
        super().__init__(served.name)
        self._served = served
        self._lifecycle = lifecycle
        self._defaults = defaults

    async def healthy(self) -> bool:
        return self._lifecycle.ready

    def load(self) -> bool:
        """Loading is never a request's doing; the loading thread does it once."""
        return self._lifecycle.ready

    def validate(self, payload: Asked) -> Asked:
        """The SDK's check knows its own types only; ours was made when the call was read."""
        return payload

    async def predict(
        self,
        payload: Asked,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> Answered:
        """Translate one call. Raises RequestError's family."""
        with self._lifecycle.request() as loaded:
            asks = outputs.asked_outputs(payload.call.outputs)
            call, wants = payload.call, outputs.wants_of(asks)
            elements = sum(len(tensor.data) for tensor in call.inputs)
            request = await computed(
                elements > LARGE // 8, lambda: contract.request_of(call, self._defaults, wants, payload.rows)
            )
            asks = outputs.with_count(asks, request.options.hypotheses)
            results: list[Translation] = await loaded.service.translate(request)
            metrics.SEGMENTS.inc(len(results))
            for each in (warning for result in results for warning in result.warnings):
                metrics.warned(each.kind)
            heavy = request.wants.graph or request.wants.result or len(results) > MANY
            tensors = await computed(heavy, lambda: outputs.tensors_of(results, asks))
            id = payload.call.id or str(uuid.uuid4())
            return Answered(InferAnswer(self._served.name, loaded.version, id, tensors), asks)


class TruthfulDataPlane(DataPlane):  # type: ignore[misc]
    """The SDK's data plane with every answer taken from the lifecycle."""

    def __init__(self, registry: ModelRepository, lifecycle: Lifecycle, served: Served, calls: Calls) -> None:
        super().__init__(registry)
        self._lifecycle = lifecycle
        self._served = served
        self.calls = calls
        """Who watches the calls of all protocols."""

    async def ready(self) -> bool:
        return self._lifecycle.ready

    async def model_ready(self, model_name: str, disable_predictor_health_check: bool = False) -> bool:
        self.require(model_name)
        return self._lifecycle.ready

    def require(self, name: str, version: str | None = None) -> None:
        """Raises UnknownModel, naming what there is, for any other name or version."""
        if name not in self._served.all:
            raise UnknownModel(
                f"There is no model '{name[:80]}' here.", hint=f"Served names: {', '.join(self._served.all)}."
            )
        loaded = self._lifecycle.loaded
        if version and loaded is not None and version != loaded.version:
            raise UnknownModel(
                f"'{name}' has no version '{version[:40]}' here.", hint=f"Served version: {loaded.version}."
            )

    async def get_model(self, name: str) -> NllbModel:
        """The model of that name; nothing is loaded here."""
        self.require(name)
        model: NllbModel = self.model_registry.get_model(name)
        return model

    async def translate(self, name: str, asked: Asked, call: Call) -> Answered:
        """The answer of one call, which learns what it is about."""
        call.texts = next((each.data for each in asked.call.inputs if each.name == contract.TEXT.name), ())
        answered: Answered
        answered, _ = await self.infer(name, asked, headers={})
        call.translations = answered.answer.outputs[0].data
        return answered

    def statistics(self, name: str) -> list[dict[str, Any]]:
        """Triton's model statistics of one model, or of all for an empty name."""
        if name:
            self.require(name)
        return [self._lifecycle.statistics.facts(self._served.name, self._version)]

    def configuration(self, name: str) -> dict[str, Any]:
        """Triton's model configuration."""
        self.require(name)
        return statistics.configuration(self._served.name, contract.INPUTS, outputs.OUTPUTS)

    def index(self, ready_only: bool) -> list[dict[str, str]]:
        """Triton's repository index."""
        ready, state = self._lifecycle.ready, self._lifecycle.state.value
        names = self._served.all if ready or not ready_only else ()
        return statistics.index(names, self._version, ready, state)

    @property
    def _version(self) -> str:
        loaded = self._lifecycle.loaded
        return loaded.version if loaded is not None else ""

    def metadata(self) -> dict[str, Any]:
        """Of this server; the version is ours and not the SDK's."""
        return {"name": "serval-live", "version": package_version(), "extensions": list(EXTENSIONS)}

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """The model's words, versions and properties; before it is ready only what is known then."""
        self.require(model_name)
        loaded = self._lifecycle.loaded
        if loaded is None:
            raise NotReady(f"The model is not ready: {self._lifecycle.state.value}.")
        return {
            "name": self._served.name,
            "versions": [loaded.version],
            "platform": PLATFORM,
            "inputs": [_described(spec) for spec in contract.INPUTS],
            "outputs": [_described(spec) for spec in outputs.OUTPUTS],
            "properties": properties(loaded, self._lifecycle.phases),
        }


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def properties(loaded: Loaded, phases: Mapping[str, float]) -> dict[str, str]:
    """What metadata tells beyond the protocol, all of it text."""
    return {**loaded.properties(), "phases": json.dumps(phases)}
