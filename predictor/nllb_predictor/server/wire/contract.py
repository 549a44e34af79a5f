"""The words of the v2 contract: which inputs, parameters and outputs there are, and what they mean.

One list, used to read requests and to fill the metadata, so that neither can promise what the other refuses. A word
that is not on it is refused with the nearest one: a misspelt `target_langauge` must not mean "default".
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.service import TranslateRequest, Translation
from nllb_predictor.errors import BadRequest
from nllb_predictor.server.wire.tensors import InferCall, OutputAsk, Parameter, Tensor, Value
from nllb_predictor.settings import ServeSettings


@dataclass(frozen=True)
class TensorSpec:
    """One line of the metadata; -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


TEXT = TensorSpec("text", "BYTES", (-1,))
SOURCE = TensorSpec("source_language", "BYTES", (-1,))
TARGET = TensorSpec("target_language", "BYTES", (-1,))
INPUTS = (TEXT, SOURCE, TARGET)

TRANSLATION = TensorSpec("translation", "BYTES", (-1, 1))
SCORE = TensorSpec("score", "FP32", (-1, 1))
OUTPUTS = (TRANSLATION, SCORE)
DEFAULT_OUTPUTS = (OutputAsk(TRANSLATION.name),)

BEAM_SIZE = "beam_size"
TIMEOUT = "timeout_ms"
PARAMETERS = (BEAM_SIZE, TIMEOUT)

PROTOCOL_PARAMETERS = frozenset({"binary_data", "binary_data_output", "content_type"})
"""Sent by clients on their own account; they change no translation."""


@dataclass(frozen=True)
class Defaults:
    """What holds where a request says nothing, and how far it may go."""

    search: Search
    timeout_ms: int
    max_beams: int
    max_timeout_ms: int

    @staticmethod
    def of(settings: ServeSettings) -> "Defaults":
        return Defaults(
            Search(settings.beam_size, settings.max_output_tokens),
            settings.timeout_ms,
            settings.max_beam_size,
            settings.max_timeout_ms,
        )


def request_of(call: InferCall, defaults: Defaults) -> TranslateRequest:
    """The request that a v2 call means. Raises BadRequest, naming the tensor or parameter at fault."""
    known = [spec.name for spec in INPUTS]
    tensors: dict[str, Tensor] = {}
    for tensor in call.inputs:
        require_known(tensor.name, known, "input")
        if tensor.name in tensors:
            raise BadRequest("The input is given twice.", field=tensor.name)
        tensors[tensor.name] = tensor
    if TEXT.name not in tensors:
        raise BadRequest("The input is missing.", field=TEXT.name, hint="Send BYTES of shape [n] or [n,1].")
    texts = column(tensors[TEXT.name])
    return TranslateRequest(
        texts,
        languages(tensors.get(SOURCE.name), len(texts)),
        languages(tensors.get(TARGET.name), len(texts)),
        search_of(call.parameters, defaults),
        timeout_of(call.parameters, defaults),
    )


def column(tensor: Tensor) -> tuple[str, ...]:
    """The strings of a BYTES tensor of shape [n] or [n,1]. Raises BadRequest."""
    if tensor.datatype != "BYTES":
        raise BadRequest(f"The datatype must be BYTES, not {tensor.datatype}.", field=tensor.name)
    tensor.checked()
    if len(tensor.shape) not in (1, 2) or (len(tensor.shape) == 2 and tensor.shape[1] != 1):
        raise BadRequest(f"The shape must be [n] or [n,1], not {list(tensor.shape)}.", field=tensor.name)
    return tuple(str(value) for value in tensor.data)


def languages(tensor: Tensor | None, count: int) -> tuple[str | None, ...]:
    """One tag per text: given once for all, given for each, or None for the engine's own."""
    if tensor is None:
        return (None,) * count
    tags = column(tensor)
    if len(tags) == 1:
        return tags * count
    if len(tags) != count:
        raise BadRequest(
            f"There are {len(tags)} languages for {count} texts; send 1 or {count}.", field=tensor.name
        )
    return tags


def search_of(parameters: Mapping[str, Parameter], defaults: Defaults) -> Search:
    """The search that the parameters ask for. Also refuses every parameter that does not exist."""
    for name in parameters:
        if name not in PROTOCOL_PARAMETERS:
            require_known(name, PARAMETERS, "parameter")
    beams = whole_number(parameters, BEAM_SIZE, defaults.search.beams, defaults.max_beams)
    return Search(beams, defaults.search.max_tokens, defaults.search.patience)


def timeout_of(parameters: Mapping[str, Parameter], defaults: Defaults) -> float:
    """Seconds."""
    return whole_number(parameters, TIMEOUT, defaults.timeout_ms, defaults.max_timeout_ms) / 1000


def whole_number(parameters: Mapping[str, Parameter], name: str, default: int, most: int) -> int:
    """A parameter from 1 to `most`. Raises BadRequest; no other type is bent into a number."""
    value = parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadRequest(f"Must be a whole number from 1 to {most}, not {value!r:.60}.", field=name)
    return value


def require_known(name: str, known: Iterable[str], kind: str) -> None:
    """Raises BadRequest with the nearest word where `name` is not one of `known`."""
    words = list(known)
    if name in words:
        return
    near = difflib.get_close_matches(name, words, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(words)}."
    raise BadRequest(f"There is no {kind} '{name[:60]}'.", field=name[:60], hint=hint)


def asked_outputs(asks: Sequence[OutputAsk]) -> tuple[OutputAsk, ...]:
    """The wanted outputs, `translation` alone where none is named. Raises BadRequest for an unknown one."""
    for ask in asks:
        require_known(ask.name, [spec.name for spec in OUTPUTS], "output")
    return tuple({ask.name: ask for ask in asks}.values()) or DEFAULT_OUTPUTS


def tensors_of(results: Sequence[Translation], asks: Sequence[OutputAsk]) -> tuple[Tensor, ...]:
    """The wanted outputs, in the order that they were asked for."""
    columns: dict[str, tuple[Value, ...]] = {
        TRANSLATION.name: tuple(result.text for result in results),
        SCORE.name: tuple(result.score for result in results),
    }
    types = {spec.name: spec.datatype for spec in OUTPUTS}
    return tuple(Tensor(ask.name, types[ask.name], (len(results), 1), columns[ask.name]) for ask in asks)
