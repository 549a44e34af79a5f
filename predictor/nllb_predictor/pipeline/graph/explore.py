"""What else a sentence's translation might be: the beam's hypotheses, and ways that leave the best one.

The best one is looked at as it is spelt. At each of its places the model tells the likeliest other pieces, in one pass.
The likeliest of all places are begun and finished greedily, all in one batch, which also tells the log-probability of
every token that it writes; those of the beginning are known. Texts whose log-probabilities are not known by then, the
beam's and those that the model spelt in its own way, are scored by teacher forcing. So a graph costs about one large
batch, a pass and two small batches beyond its translation, and their size is bounded here.

What is scored is a text as it is spelt, in the pieces that the tokenizer makes of it. The model may have written it in
others (a small vocabulary: one text in four), and no reader of the text could tell.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from nllb_predictor.engine.domain import Hypothesis, NextTokens, Search, Segment
from nllb_predictor.engine.model import END
from nllb_predictor.engine.scheduler import Ticket
from nllb_predictor.pipeline.search import Searcher, Task, scored
from nllb_predictor.pipeline.units import Found, Unit, Written
from nllb_predictor.pipeline.write import Decoder, Draft, written

T = TypeVar("T")

TOP = 12
"""How many pieces are looked at for each place."""

OTHER_WAYS = 35
"""How many other ways are begun for a sentence, at most."""

UNLIKELY = 6.0
"""Nats: a piece that is less likely than e^-6 at its place is not begun with."""

LONGER = 12
"""Tokens by which another way may be longer than the best one; what has not ended by then is likely a loop."""


class Speller(Decoder, Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        """Pieces of each text."""


@dataclass(frozen=True)
class Spelt:
    """A text as the model wrote it, with attention, and as it is spelt, with log-probabilities. Both are one where the
    text has more than the model wrote (protected spans), or could not be spelt."""

    written: Written
    scored: Written


@dataclass(frozen=True)
class Way:
    """Tokens that begin like the best hypothesis and then leave it; `log_prob` is that of the last one."""

    tokens: tuple[str, ...]
    log_prob: float


class Explorer:
    """Explores with one model. `in_thread` runs what computes."""

    def __init__(
        self,
        searcher: Searcher,
        tokenizer: Speller,
        max_positions: int,
        in_thread: Callable[[Callable[[], list[Found]]], Awaitable[list[Found]]],
        other_ways: int = OTHER_WAYS,
    ) -> None:
        self._searcher = searcher
        self._tokenizer = tokenizer
        self._max_positions = max_positions
        self._in_thread = in_thread
        self._other_ways = other_ways

    async def explored(
        self, ticket: Ticket, tasks: Sequence[Task], found: Sequence[Found]
    ) -> list[tuple[Spelt, ...]]:
        """For each sentence all of its hypotheses, scored: the first one of `found`, its others, then those that leave
        it, the likeliest first. A sentence whose beginning the caller gave has those of `found` only."""
        known = await self._scored(ticket, found)
        free = [place for place, task in enumerate(tasks) if task.begun is None and known[place]]
        if not self._other_ways:
            free = []
        leaving = [Found(found[place].unit, (known[place][0].scored,)) for place in free]
        finished = await self._scored(ticket, await self._finished(ticket, leaving))
        for place, others in zip(free, finished, strict=True):
            known[place] = _distinct([*known[place], *others])
        return known

    async def _scored(self, ticket: Ticket, found: Sequence[Found]) -> list[tuple[Spelt, ...]]:
        spelt = await scored(ticket, await self._in_thread(lambda: self._spelt(found)))
        return [
            _distinct([Spelt(*pair) for pair in zip(each.written, own.written, strict=True)])
            for each, own in zip(found, spelt, strict=True)
        ]

    async def _ways(self, ticket: Ticket, found: Sequence[Found]) -> list[list[Way]]:
        bests = [each.written[0].hypothesis for each in found]
        segments = [_after(each.unit, best.tokens[1:]) for each, best in zip(found, bests, strict=True)]
        rows = await ticket.run(segments, NextTokens(TOP)) if segments else []
        return [ways(best, row[0])[: self._other_ways] for best, row in zip(bests, rows, strict=True)]

    async def _finished(self, ticket: Ticket, found: Sequence[Found]) -> list[Found]:
        """What leaves the one hypothesis of each, with the log-probability of every token: of the beginning they are
        known, and of the rest a greedy search tells them."""
        begun = await self._ways(ticket, found)
        segments = [
            _after(each.unit, way.tokens) for each, own in zip(found, begun, strict=True) for way in own
        ]
        if not segments:
            return [Found(each.unit, ()) for each in found]
        longest = max(len(segment.prefix) for segment in segments)
        most = max(len(each.written[0].hypothesis.tokens) for each in found) + LONGER
        limit = max(1, min(most, self._max_positions - 1 - longest))
        rows = iter(await ticket.run(segments, Search(1, limit, attention=True, log_probs=True)))
        drafts = [
            [
                Draft(each.unit, _with_beginning(row[0], way, each.written[0].hypothesis))
                for way, row in [(way, next(rows)) for way in own]
                if row[0].complete
            ]
            for each, own in zip(found, begun, strict=True)
        ]
        tasks = [Task(each.unit) for each in found]
        return await self._in_thread(lambda: self._searcher.found(tasks, drafts, self._other_ways))

    def _spelt(self, found: Sequence[Found]) -> list[Found]:
        """The same texts in the pieces that the tokenizer makes of them; without log-probabilities where these are not
        the model's own."""
        flat = [(each.unit, one) for each in found for one in each.written]
        pieces = self._tokenizer.pieces([one.text for _, one in flat])
        drafts = [
            Draft(unit, Hypothesis((one.hypothesis.tokens[0], *own), 0.0, one.hypothesis.complete))
            for (unit, one), own in zip(flat, pieces, strict=True)
        ]
        respelt = written(self._tokenizer, drafts)
        same = iter(
            other if _respells(one, other) else one for (_, one), other in zip(flat, respelt, strict=True)
        )
        return [Found(each.unit, tuple(next(same) for _ in each.written)) for each in found]


def _respells(one: Written, other: Written) -> bool:
    """Whether `other` is to be scored in place of `one`: the same text in other pieces."""
    if one.carried or not one.hypothesis.complete:
        return False
    return other.text == one.text and other.hypothesis.tokens != one.hypothesis.tokens


def _distinct(row: Sequence[Spelt]) -> tuple[Spelt, ...]:
    """The first of all that read alike, in order."""
    found: dict[str, Spelt] = {}
    for each in row:
        found.setdefault(each.written.text, each)
    return tuple(found.values())


def _with_beginning(finished: Hypothesis, way: Way, left: Hypothesis) -> Hypothesis:
    """With the log-probabilities of the way's tokens, which the search was given and did not score."""
    if not finished.log_probs:
        return finished
    given = len(way.tokens)
    begun = (*left.log_probs[:given], way.log_prob)
    return replace(finished, log_probs=(*begun, *finished.log_probs[given + 1 :]))


def ways(best: Hypothesis, following: Hypothesis) -> list[Way]:
    """The likeliest ways to leave a hypothesis, the likeliest first.

    Other tokens that only cut the same letters differently are left out: most of them become the same text.
    """
    tokens = best.tokens[1:]
    expected = (*tokens, END)
    found = [
        Way((*tokens[:place], other.token), other.log_prob)
        for place, others in enumerate(following.next_tokens)
        for rest in ["".join(tokens[place:])]
        for other in others
        if other.token not in (expected[place], END) and not rest.startswith(other.token)
        if other.log_prob >= -UNLIKELY
    ]
    return sorted(found, key=lambda way: -way.log_prob)


def _after(unit: Unit, tokens: tuple[str, ...]) -> Segment:
    return replace(unit.segment, prefix=tokens)
