"""Second stage: what the model makes of each sentence, as text, and, where words are wanted, how sure it was of each
piece."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nllb_predictor.engine.domain import Scoring, Search
from nllb_predictor.engine.scheduler import Ticket
from nllb_predictor.pipeline.prefix import Beginning, Continuer, PrefixTokenizer, rescored
from nllb_predictor.pipeline.units import Found, Prepared, Unit, Written
from nllb_predictor.pipeline.write import Decoder, Draft, written


class SearchTokenizer(Decoder, PrefixTokenizer, Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""


@dataclass(frozen=True)
class Task:
    """A sentence to translate, and how the caller begins its translation."""

    unit: Unit
    begun: Beginning | None = None


class Searcher:
    """Searches with one model. Its plain methods compute and belong on a helper thread."""

    def __init__(self, tokenizer: SearchTokenizer, max_positions: int) -> None:
        self._tokenizer = tokenizer
        self._continuer = Continuer(tokenizer, max_positions)

    def tasks(self, prepared: Sequence[Prepared]) -> list[Task]:
        """All sentences in order; a caller's beginning is that of the first one of its segment. Raises TextTooLong."""
        return [
            Task(unit, self._continuer.beginning(index, each.prefix) if each.prefix and not place else None)
            for index, each in enumerate(prepared)
            for place, unit in enumerate(each.units)
        ]

    async def drafts(self, ticket: Ticket, tasks: Sequence[Task], search: Search) -> list[list[Draft]]:
        """The hypotheses of each task, best first. Of a begun one there may be more than the search asks for."""
        free = [task.unit for task in tasks if task.begun is None]
        plain, *continued = await asyncio.gather(
            self._plain(ticket, free, search),
            *(
                self._continued(ticket, task.unit, task.begun, search)
                for task in tasks
                if task.begun is not None
            ),
        )
        rows, others = iter(plain), iter(continued)
        return [next(rows) if task.begun is None else next(others)[0] for task in tasks]

    async def _plain(self, ticket: Ticket, units: Sequence[Unit], search: Search) -> list[list[Draft]]:
        found = await ticket.run([unit.segment for unit in units], search) if units else []
        return [[Draft(unit, each) for each in row] for unit, row in zip(units, found, strict=True)]

    async def _continued(
        self, ticket: Ticket, unit: Unit, begun: Beginning, search: Search
    ) -> list[list[Draft]]:
        found = await self._continuer.continued(ticket, unit.segment, begun, search)
        return [[Draft(unit, each.hypothesis, begun.text, each.covered) for each in found]]

    def found(self, tasks: Sequence[Task], rows: Sequence[Sequence[Draft]], hypotheses: int) -> list[Found]:
        """The drafts as text, at most `hypotheses` of each task and no two alike."""
        texts = iter(written(self._tokenizer, [draft for row in rows for draft in row]))
        return [
            Found(task.unit, distinct([next(texts) for _ in row])[:hypotheses])
            for task, row in zip(tasks, rows, strict=True)
        ]


def distinct(row: Sequence[Written]) -> tuple[Written, ...]:
    """The first of all that read alike, in order."""
    found: dict[str, Written] = {}
    for each in row:
        found.setdefault(each.text, each)
    return tuple(found.values())


async def scored(ticket: Ticket, found: Sequence[Found]) -> list[Found]:
    """With the log-probability of each piece of every hypothesis; those that have them already cost nothing. Scores
    stay as they are."""
    missing = [
        (place, index, each)
        for place, one in enumerate(found)
        for index, each in enumerate(one.written)
        if not each.hypothesis.log_probs
    ]
    segments = [
        replace(found[place].unit.segment, prefix=each.hypothesis.tokens[1:]) for place, _, each in missing
    ]
    rows = await ticket.run(segments, Scoring()) if segments else []
    known = [list(one.written) for one in found]
    for (place, index, each), row in zip(missing, rows, strict=True):
        own = replace(rescored(each.hypothesis, row[0]), score=each.hypothesis.score)
        known[place][index] = replace(each, hypothesis=own)
    return [replace(one, written=tuple(row)) for one, row in zip(found, known, strict=True)]
