"""The words of a v2 answer: which outputs there are, what each costs, and how answers fill them.

`h` is the largest number of distinct hypotheses of any segment of the request. JSON has neither ragged tables nor
minus infinity, so missing cells are empty text with score 0, and `hypothesis_count` tells them apart.
"""

from collections.abc import Sequence

import orjson

from nllb_predictor.pipeline.answer import Alternative, Translation
from nllb_predictor.pipeline.request import Wants
from nllb_predictor.server.wire.contract import TensorSpec, require_known
from nllb_predictor.server.wire.tensors import OutputAsk, Tensor, Value

TRANSLATION = TensorSpec("translation", "BYTES", (-1, -1))
SCORE = TensorSpec("score", "FP32", (-1, -1))
RESULT = TensorSpec("translation_result", "BYTES", (-1, -1))
GRAPH = TensorSpec("word_graph", "BYTES", (-1, 1))
WARNINGS = TensorSpec("warnings", "BYTES", (-1, 1))
SENTENCES = TensorSpec("sentences", "BYTES", (-1, 1))
TOKENS = TensorSpec("token_count", "INT32", (-1, 2))
COUNT = TensorSpec("hypothesis_count", "INT32", (-1,))
OUTPUTS = (TRANSLATION, SCORE, RESULT, GRAPH, WARNINGS, SENTENCES, TOKENS, COUNT)
DEFAULT_OUTPUTS = (OutputAsk(TRANSLATION.name),)

ABSENT = Alternative("", 0.0)
"""What stands in a cell of a segment that has fewer hypotheses than another one."""


def asked_outputs(asks: Sequence[OutputAsk]) -> tuple[OutputAsk, ...]:
    """The wanted outputs, `translation` alone where none is named. Raises BadRequest for an unknown one."""
    for ask in asks:
        require_known(ask.name, [spec.name for spec in OUTPUTS], "output")
    return tuple({ask.name: ask for ask in asks}.values()) or DEFAULT_OUTPUTS


def wants_of(asks: Sequence[OutputAsk]) -> Wants:
    """What has to be computed for these outputs."""
    names = {ask.name for ask in asks}
    return Wants(result=RESULT.name in names, graph=GRAPH.name in names)


def with_count(asks: tuple[OutputAsk, ...], hypotheses: int) -> tuple[OutputAsk, ...]:
    """The outputs to send: with more than one hypothesis wanted, their count goes along unasked."""
    if hypotheses == 1 or any(ask.name == COUNT.name for ask in asks):
        return asks
    return (*asks, OutputAsk(COUNT.name))


def tensors_of(answers: Sequence[Translation], asks: Sequence[OutputAsk]) -> tuple[Tensor, ...]:
    """The wanted outputs, in the order that they were asked for."""
    return tuple(_tensor(answers, ask.name) for ask in asks)


def _tensor(answers: Sequence[Translation], name: str) -> Tensor:
    spec = next(spec for spec in OUTPUTS if spec.name == name)
    if spec in (TRANSLATION, SCORE, RESULT):
        width = max((len(answer.alternatives) for answer in answers), default=1)
        cells = [_cell(spec, each) for answer in answers for each in _padded(answer, width)]
        return Tensor(name, spec.datatype, (len(answers), width), tuple(cells))
    if spec is COUNT:
        return Tensor(name, spec.datatype, (len(answers),), tuple(len(each.alternatives) for each in answers))
    if spec is TOKENS:
        counts = [count for each in answers for count in (each.source_tokens, each.target_tokens)]
        return Tensor(name, spec.datatype, (len(answers), 2), tuple(counts))
    return Tensor(name, spec.datatype, (len(answers), 1), tuple(_json(spec, each) for each in answers))


def _padded(answer: Translation, width: int) -> Sequence[Alternative]:
    return (*answer.alternatives, *[ABSENT] * (width - len(answer.alternatives)))


def _cell(spec: TensorSpec, alternative: Alternative) -> Value:
    if spec is TRANSLATION:
        return alternative.text
    if spec is SCORE:
        return alternative.score
    return dumped(alternative.result.as_json()) if alternative.result else ""


def _json(spec: TensorSpec, answer: Translation) -> str:
    if spec is WARNINGS:
        return dumped([warned.as_json() for warned in answer.warnings])
    if spec is SENTENCES:
        return dumped([sentence.as_json() for sentence in answer.sentences])
    return dumped(answer.graph.as_json()) if answer.graph else ""


def dumped(value: object) -> str:
    """Compact JSON."""
    return orjson.dumps(value).decode()
