"""Last stage: the answers of a segment's parts become one answer of the segment as it was sent.

Several hypotheses of several sentences make many translations; wanted are those with the highest log-probability,
summed over the sentences. The search, though, compares means, by which a longer hypothesis may stand before one with
a greater sum. That order within a sentence holds: a hypothesis never counts for more than those before it. So the
first is the one that a call for a single hypothesis gets, and a single sentence keeps the model's own order.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from nllb_predictor.pipeline.answer import Alternative, Sentence, Translation, TranslationResult
from nllb_predictor.pipeline.describe import Piece, copied_pieces, described, pieces_of
from nllb_predictor.pipeline.search import distinct
from nllb_predictor.pipeline.units import Copied, Found, Prepared, Unit, Written

COPIED_SCORE = 0.0
"""Log-probability of returning text as it is: certain, and not computed."""

LOOKED_AT = 16
"""How many combinations are looked at for each that is wanted, since two may read alike."""


@dataclass(frozen=True)
class Wanted:
    """How much of each answer is wanted."""

    hypotheses: int = 1
    result: bool = False


Choice = tuple[int, ...]
"""For each sentence, which of its hypotheses."""
Rows = Sequence[Sequence[Written]]
"""For each sentence its hypotheses, distinct as text and best first."""


def joined(prepared: Prepared, found: Sequence[Found], wanted: Wanted = Wanted()) -> Translation:
    """One answer; `found` has what became of `prepared.units`, in order."""
    rows = [distinct(each.written) for each in found]
    chosen: dict[str, Choice] = {}
    for choice in islice(combinations(rows), LOOKED_AT * wanted.hypotheses):
        chosen.setdefault("".join(_texts(prepared, _picked(rows, choice))), choice)
        if len(chosen) == wanted.hypotheses:
            break
    alternatives = [Alternative(text, _score(rows, choice)) for text, choice in chosen.items()]
    if wanted.result:
        alternatives = [
            replace(each, result=_result(prepared, _picked(rows, choice)))
            for each, choice in zip(alternatives, chosen.values(), strict=True)
        ]
    return Translation(
        tuple(alternatives),
        tuple(warned for each in found for warned in each.warnings),
        sum(len(unit.segment.tokens) for unit in prepared.units),
        sum(_weight(row[0]) for row in rows),
        _sentences(prepared, _picked(rows, next(iter(chosen.values())))),
    )


def combinations(rows: Rows) -> Iterator[Choice]:
    """Every way to choose one hypothesis of each sentence, the best first. Within a sentence the given order holds,
    whatever the scores say: a repaired hypothesis may stand before a likelier one that it repairs."""
    costs = [_costs(row) for row in rows]
    first = (0,) * len(rows)
    waiting = [(0.0, first)]
    seen = {first}
    while waiting:
        _, choice = heapq.heappop(waiting)
        yield choice
        for place, index in enumerate(choice):
            if index + 1 < len(rows[place]):
                following = (*choice[:place], index + 1, *choice[place + 1 :])
                if following not in seen:
                    seen.add(following)
                    cost = sum(costs[at][each] for at, each in enumerate(following))
                    heapq.heappush(waiting, (cost, following))


def _costs(row: Sequence[Written]) -> list[float]:
    """What each hypothesis loses in log-probability against the first, never less than the one before it."""
    return list(accumulate((_log_prob(row[0]) - _log_prob(each) for each in row), max))


def _score(rows: Rows, choice: Choice) -> float:
    """Mean log-probability over the tokens of all sentences."""
    picked = _picked(rows, choice)
    if not picked:
        return COPIED_SCORE
    return sum(_log_prob(each) for each in picked) / sum(_weight(each) for each in picked)


def _log_prob(written: Written) -> float:
    return written.hypothesis.score * _weight(written)


def _weight(written: Written) -> int:
    """Tokens, code and end mark included."""
    return len(written.hypothesis.tokens) + written.hypothesis.complete


def _picked(rows: Rows, choice: Choice) -> list[Written]:
    return [row[index] for row, index in zip(rows, choice, strict=True)]


def _texts(prepared: Prepared, picked: Sequence[Written]) -> list[str]:
    """The text of each part. With a beginning that the caller gave the answer begins with it, whatever stands before
    the sentence that it begins; what is only copied is left alone if it begins so, else nothing follows the beginning.
    """
    texts = _own_texts(prepared, picked)
    if not prepared.prefix:
        return texts
    if not picked:
        begins = "".join(texts).startswith(prepared.prefix)
        return texts if begins else [prepared.prefix, *[""] * (len(texts) - 1)]
    first = next(place for place, part in enumerate(prepared.parts) if isinstance(part, Unit))
    return [*[""] * first, *texts[first:]]


def _own_texts(prepared: Prepared, picked: Sequence[Written]) -> list[str]:
    answers = iter(picked)
    return [part.text if isinstance(part, Copied) else next(answers).text for part in prepared.parts]


def _sentences(prepared: Prepared, picked: Sequence[Written]) -> tuple[Sentence, ...]:
    """Where each sentence stands in the segment and in its translation."""
    texts = _texts(prepared, picked)
    ends = list(accumulate(len(text) for text in texts))
    return tuple(
        Sentence(part.span.start, part.span.end, end - len(text), end)
        for part, text, end in zip(prepared.parts, texts, ends, strict=True)
        if isinstance(part, Unit)
    )


def _result(prepared: Prepared, picked: Sequence[Written]) -> TranslationResult:
    """Words of the whole segment, wherever its sentences were cut."""
    texts, answers = _texts(prepared, picked), iter(picked)
    pieces: list[Piece] = []
    at = 0
    for part, own, text in zip(prepared.parts, _own_texts(prepared, picked), texts, strict=True):
        found = copied_pieces(part) if isinstance(part, Copied) else pieces_of(part, next(answers))
        pieces += [piece.moved(at) for piece in found if own == text]
        at += len(text)
    return described(prepared.text, "".join(texts), pieces, len(prepared.prefix))
