"""The words of a v2 request: which inputs and parameters there are, and what they mean.

One list, used to read requests and to fill the metadata, so that neither can promise what the other refuses. A word
that is not on it is refused with the nearest one: a misspelt `target_langauge` must not mean "default". The words of
the answer are in `outputs`.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.scheduler import Priority
from nllb_predictor.errors import BadRequest
from nllb_predictor.pipeline.request import Ask, Lines, Options, TranslateRequest, Wants
from nllb_predictor.server.wire.tensors import InferCall, Parameter, Tensor
from nllb_predictor.settings import ServeSettings

Word = TypeVar("Word", bound=StrEnum)
Rows = Mapping[str, tuple[str | None, ...]]
"""By input name: one value for each text, None where it says nothing."""


@dataclass(frozen=True)
class TensorSpec:
    """One line of the metadata; -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


TEXT = TensorSpec("text", "BYTES", (-1,))
SOURCE = TensorSpec("source_language", "BYTES", (-1,))
TARGET = TensorSpec("target_language", "BYTES", (-1,))
PREFIX = TensorSpec("target_prefix", "BYTES", (-1,))
TERMS = TensorSpec("protected_terms", "BYTES", (-1,))
ROW_INPUTS = (SOURCE, TARGET, PREFIX)
"""Given once for all texts or once for each."""
INPUTS = (TEXT, *ROW_INPUTS, TERMS)

BEAM_SIZE = "beam_size"
HYPOTHESES = "num_hypotheses"
TIMEOUT = "timeout_ms"
SPLIT = "split_sentences"
LINES = "lines"
COPY = "copy_untranslatable"
DETERMINISTIC = "deterministic"
PRIORITY = "priority"
PARAMETERS = (BEAM_SIZE, HYPOTHESES, TIMEOUT, SPLIT, LINES, COPY, DETERMINISTIC, PRIORITY)

MOST_TERMS = 1000
"""Protected terms of one call. Each is looked for in each of its texts."""

PROTOCOL_PARAMETERS = frozenset({"binary_data", "binary_data_output", "content_type"})
"""Sent by clients on their own account; they change no translation."""


@dataclass(frozen=True)
class Defaults:
    """What holds where a request says nothing, and how far it may go."""

    search: Search
    timeout_ms: int
    max_beams: int
    max_timeout_ms: int
    bulk_timeout_ms: int = 300_000

    @staticmethod
    def of(settings: ServeSettings) -> "Defaults":
        return Defaults(
            Search(settings.beam_size, settings.max_output_tokens),
            settings.timeout_ms,
            settings.max_beam_size,
            settings.max_timeout_ms,
            settings.max_timeout_ms,
        )


def request_of(
    call: InferCall, defaults: Defaults, wants: Wants, rows: Rows | None = None
) -> TranslateRequest:
    """The request that a v2 call means; `rows` are the inputs of single texts where they did not come as tensors.

    Raises BadRequest, naming the tensor or parameter at fault.
    """
    tensors = tensors_by_name(call)
    texts = column(tensors[TEXT.name])
    given = {spec.name: row_values(tensors.get(spec.name), len(texts)) for spec in ROW_INPUTS} | dict(
        rows or {}
    )
    asks = tuple(
        Ask(text, source, target, prefix or "")
        for text, source, target, prefix in zip(
            texts, *(given[spec.name] for spec in ROW_INPUTS), strict=True
        )
    )
    parameters = call.parameters
    for name in parameters:
        if name not in PROTOCOL_PARAMETERS:
            require_known(name, PARAMETERS, "parameter")
    priority = word(parameters, PRIORITY, Priority.INTERACTIVE)
    return TranslateRequest(
        asks,
        options_of(parameters, defaults, terms_of(tensors.get(TERMS.name))),
        wants,
        timeout_of(parameters, defaults, priority),
        priority,
        call.caller,
        flag(parameters, DETERMINISTIC, False),
    )


def tensors_by_name(call: InferCall) -> dict[str, Tensor]:
    """The inputs, each known and given once, `text` among them. Raises BadRequest."""
    tensors: dict[str, Tensor] = {}
    for tensor in call.inputs:
        require_known(tensor.name, [spec.name for spec in INPUTS], "input")
        if tensor.name in tensors:
            raise BadRequest("The input is given twice.", field=tensor.name)
        tensors[tensor.name] = tensor
    if TEXT.name not in tensors:
        raise BadRequest("The input is missing.", field=TEXT.name, hint="Send BYTES of shape [n] or [n,1].")
    return tensors


def column(tensor: Tensor) -> tuple[str, ...]:
    """The strings of a BYTES tensor of shape [n] or [n,1]. Raises BadRequest."""
    if tensor.datatype != "BYTES":
        raise BadRequest(f"The datatype must be BYTES, not {tensor.datatype}.", field=tensor.name)
    tensor.checked()
    if len(tensor.shape) not in (1, 2) or (len(tensor.shape) == 2 and tensor.shape[1] != 1):
        raise BadRequest(f"The shape must be [n] or [n,1], not {list(tensor.shape)}.", field=tensor.name)
    return tuple(str(value) for value in tensor.data)


def row_values(tensor: Tensor | None, count: int) -> tuple[str | None, ...]:
    """One value per text: given once for all, given for each, or None where the input is absent."""
    if tensor is None:
        return (None,) * count
    values = column(tensor)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise BadRequest(
            f"There are {len(values)} values for {count} texts; send 1 or {count}.", field=tensor.name
        )
    return values


def terms_of(tensor: Tensor | None) -> tuple[str, ...]:
    """The protected terms, each once. Raises BadRequest for a blank one, which would protect nothing, and for more than
    can be looked for in each text."""
    terms = column(tensor) if tensor is not None else ()
    if len(terms) > MOST_TERMS:
        raise BadRequest(
            f"One call may name {MOST_TERMS} protected terms, not {len(terms)}.",
            field=TERMS.name,
            hint="Send those that stand in its texts.",
        )
    if any(not term.strip() for term in terms):
        raise BadRequest("A protected term is blank.", field=TERMS.name)
    return tuple(dict.fromkeys(terms))


def options_of(parameters: Mapping[str, Parameter], defaults: Defaults, terms: tuple[str, ...]) -> Options:
    """How to translate. More hypotheses than the default beams raise the beams; than named beams are refused."""
    hypotheses = whole_number(parameters, HYPOTHESES, 1, defaults.max_beams)
    beams = whole_number(parameters, BEAM_SIZE, max(defaults.search.beams, hypotheses), defaults.max_beams)
    if hypotheses > beams:
        raise BadRequest(
            f"{hypotheses} hypotheses need as many beams, but {BEAM_SIZE} is {beams}.", field=HYPOTHESES
        )
    return Options(
        replace(defaults.search, beams=beams),
        hypotheses,
        flag(parameters, SPLIT, True),
        word(parameters, LINES, Lines.KEEP),
        flag(parameters, COPY, True),
        terms,
    )


def timeout_of(parameters: Mapping[str, Parameter], defaults: Defaults, priority: Priority) -> float:
    """Seconds."""
    default = defaults.bulk_timeout_ms if priority is Priority.BULK else defaults.timeout_ms
    return whole_number(parameters, TIMEOUT, default, defaults.max_timeout_ms) / 1000


def whole_number(parameters: Mapping[str, Parameter], name: str, default: int, most: int) -> int:
    """A parameter from 1 to `most`. Raises BadRequest; no other type is bent into a number."""
    value = parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadRequest(f"Must be a whole number from 1 to {most}, not {value!r:.60}.", field=name)
    return value


def flag(parameters: Mapping[str, Parameter], name: str, default: bool) -> bool:
    """A parameter that is true or false. Raises BadRequest."""
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise BadRequest(f"Must be true or false, not {value!r:.60}.", field=name)
    return value


def word(parameters: Mapping[str, Parameter], name: str, default: Word) -> Word:
    """A parameter that is one of a few words. Raises BadRequest."""
    value = parameters.get(name, default)
    words = [each.value for each in type(default)]
    if not isinstance(value, str) or value not in words:
        raise BadRequest(f"Must be one of {', '.join(words)}, not {value!r:.60}.", field=name)
    return type(default)(value)


def require_known(name: str, known: Iterable[str], kind: str) -> None:
    """Raises BadRequest with the nearest word where `name` is not one of `known`."""
    words = list(known)
    if name in words:
        return
    near = difflib.get_close_matches(name[:60], words, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(words)}."
    raise BadRequest(f"There is no {kind} '{name[:60]}'.", field=name[:60], hint=hint)
