"""Third stage: what is wrong with a translation is tried once more, in a way that avoids it, or told.

A loop is tried again with repetition made dear; a protected span that was lost, without the model reading it; an
omission or a wrong script with more hypotheses to choose from. The second try counts only if it has fewer such faults.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.scheduler import Ticket
from nllb_predictor.errors import RequestError
from nllb_predictor.pipeline.answer import WarningKind
from nllb_predictor.pipeline.faults import badness, judged
from nllb_predictor.pipeline.search import Searcher, Task
from nllb_predictor.pipeline.units import Found, Unit

NO_REPEAT_NGRAM = 4
REPETITION_PENALTY = 1.2
"""Of the second try after a loop: no four tokens twice, and each token that was there is dearer."""
MORE_BEAMS = 4
"""To choose from, where the first try had fewer."""

T = TypeVar("T")


class InThread(Protocol):
    """Computes on a helper thread."""

    def __call__(self, compute: Callable[[], T]) -> Awaitable[T]: ...


@dataclass(frozen=True)
class Try:
    """A second try at the sentence at `place`."""

    place: int
    task: Task
    search: Search


class Guard:
    """Looks at what a searcher finds. `reread` reads sentences without their protected spans."""

    def __init__(
        self, searcher: Searcher, reread: Callable[[Sequence[Unit]], list[Unit]], in_thread: InThread
    ) -> None:
        self._searcher = searcher
        self._reread = reread
        self._in_thread = in_thread

    async def repaired(
        self, ticket: Ticket, tasks: Sequence[Task], found: Sequence[Found], search: Search
    ) -> list[Found]:
        """`found` was judged; whatever has a fault that could be mended is tried again."""
        kept = list(found)
        if not any(badness(each.warnings) for each in kept):
            return kept
        tries = await self._in_thread(lambda: self._tries(tasks, kept, search))
        searches = dict.fromkeys(each.search for each in tries)
        groups = [[each for each in tries if each.search == one] for one in searches]
        for row in await asyncio.gather(*(self._again(ticket, group) for group in groups)):
            for place, second in row:
                kept[place] = better_of(kept[place], second, search.hypotheses)
        return kept

    async def _again(self, ticket: Ticket, group: Sequence[Try]) -> list[tuple[int, Found]]:
        """What a second try of the same search finds, by place; nothing where there is no time or memory for one."""
        tasks, search = [each.task for each in group], group[0].search
        try:
            drafts = await self._searcher.drafts(ticket, tasks, search)
        except RequestError:
            return []
        found = await self._in_thread(lambda: self._searcher.found(tasks, drafts, search.hypotheses))
        return [(each.place, judged(one)) for each, one in zip(group, found, strict=True)]

    def _tries(self, tasks: Sequence[Task], found: Sequence[Found], search: Search) -> list[Try]:
        tries = [
            Try(place, tasks[place], second_search(search, {each.kind for each in one.warnings}))
            for place, one in enumerate(found)
            if badness(one.warnings)
        ]
        hide = [place for place, each in enumerate(tries) if _lost(found[each.place])]
        for place, unit in zip(hide, self._reread([tries[place].task.unit for place in hide]), strict=True):
            task = replace(tries[place].task, unit=unit)
            tries[place] = replace(
                tries[place], task=task, search=replace(tries[place].search, attention=True)
            )
        return tries


def _lost(found: Found) -> bool:
    return any(each.kind is WarningKind.PROTECTED_LOST for each in found.warnings)


def second_search(search: Search, kinds: set[WarningKind]) -> Search:
    """How to search after such faults."""
    if WarningKind.LOOP in kinds:
        search = replace(search, no_repeat_ngram=NO_REPEAT_NGRAM, repetition_penalty=REPETITION_PENALTY)
    if kinds & {WarningKind.OMISSION, WarningKind.WRONG_SCRIPT}:
        beams = max(search.beams, MORE_BEAMS)
        search = replace(search, beams=beams, hypotheses=beams)
    return search


def better_of(first: Found, second: Found, hypotheses: int) -> Found:
    """The second try if it has fewer faults than the first, with no more hypotheses than are wanted."""
    if not second.written or badness(second.warnings) >= badness(first.warnings):
        return first
    return replace(second, written=second.written[:hypotheses])
