"""One loaded model and the stages that a request passes. The one path of every protocol, so that the same request has
the same answer everywhere.

Prepare (text to tokens), search (tokens to hypotheses), guard (what is wrong is tried again or told), describe (words,
confidences, alignment, graph), join (sentences to segments). Stages that compute text run on helper threads unless the
text is short, stages that compute translations run through one ticket of the scheduler; the event loop only waits.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, TypeVar

import regex

from nllb_predictor.engine.domain import Hypothesis
from nllb_predictor.engine.model import MAX_POSITIONS
from nllb_predictor.engine.scheduler import Admission, Scheduler, Ticket
from nllb_predictor.errors import DeadlineExceeded
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.pipeline.faults import judged
from nllb_predictor.pipeline.graph.explore import OTHER_WAYS, Explorer
from nllb_predictor.pipeline.graph.whole import Explored, word_graph
from nllb_predictor.pipeline.guard import Guard
from nllb_predictor.pipeline.join import Wanted, joined
from nllb_predictor.pipeline.place import needs_attention
from nllb_predictor.pipeline.prepare import Preparer
from nllb_predictor.pipeline.prepare import Tokenizer as PreparingTokenizer
from nllb_predictor.pipeline.request import TranslateRequest
from nllb_predictor.pipeline.search import Searcher, SearchTokenizer, Task, scored
from nllb_predictor.pipeline.units import Found, Prepared
from nllb_predictor.stages import Stage, timed
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.lines import BREAK
from nllb_predictor.text.protect import SIGN
from nllb_predictor.text.unknown import Tally

T = TypeVar("T")

SHORT = 640
"""Characters of a call whose text is read on the event loop: half a millisecond of work, which is less than the way to
a helper thread and back."""

SEGMENT = 128
"""Characters that a line of a segment, a protected term or span counts as before its own: an empty one is work too."""
APART = regex.compile(f"{BREAK.pattern}|{SIGN.pattern}")
"""Where a line ends or a protected span may begin."""

SENTENCE = 48
"""Characters that a sentence counts as before its own."""
END = regex.compile(r"[\p{STerm};…]+")
"""Where a sentence may end."""

FEW = 160
"""Tokens whose text is written on the event loop: a millisecond or two. A short text may well become a long one."""

HYPOTHESIS = 16
"""Tokens that a hypothesis counts as before its own: hundreds of the shortest are work too."""


class Tokenizer(PreparingTokenizer, SearchTokenizer, Protocol):
    """All that the stages need of a tokenizer; see `text.tokenise`."""


class TranslationService:
    """One loaded model, ready for requests."""

    def __init__(
        self,
        scheduler: Scheduler,
        tokenizer: Tokenizer,
        languages: Languages,
        max_input: int,
        max_positions: int = MAX_POSITIONS,
        other_ways: int = OTHER_WAYS,
    ) -> None:
        """`other_ways` is how many ways beside the beam's a word graph has at most, for each sentence."""
        self.languages = languages
        self.scheduler = scheduler
        self.unknown = Tally()
        self._preparer = Preparer(tokenizer, languages, max_input, self.unknown.see)
        self._searcher = Searcher(tokenizer, max_positions)
        self._guard = Guard(self._searcher, self._preparer.reread, self._in_thread)
        self._explorer = Explorer(self._searcher, tokenizer, max_positions, self._in_thread, other_ways)
        # Two: one long text must not hold up the tokenizing of everybody else.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="text")

    async def translate(self, request: TranslateRequest) -> list[Translation]:
        """One answer per segment, in order. Raises RequestError's family."""
        started = asyncio.get_running_loop().time()
        short = is_short(request)
        with timed(Stage.PREPARE):
            prepared, tasks = await self._prepared(request, short)
        found: list[Found] = []
        explored: Explored = ()
        if tasks:
            spent = asyncio.get_running_loop().time() - started
            admission = Admission(
                len(tasks),
                max(0.0, request.timeout - spent),
                request.priority,
                request.caller,
                request.deterministic,
            )
            with self.scheduler.admit(admission) as ticket:
                found = await self._found(ticket, request, tasks, short)
                if request.wants.graph:
                    explored = await self._explorer.explored(ticket, tasks, found)
        with timed(Stage.ANSWER):
            brief = short and few(each.hypothesis for one in found for each in one.written)
            answers = await self._computed(brief, lambda: _joined(prepared, found, request))
            if request.wants.graph:
                return await self._in_thread(lambda: _with_graphs(answers, prepared, explored))
            return answers

    async def _prepared(self, request: TranslateRequest, short: bool) -> tuple[list[Prepared], list[Task]]:
        """Unless it takes longer than the request has: then whoever waits is told so. What has begun goes on, since
        nothing can stop it; what has not begun never does."""

        def prepared() -> tuple[list[Prepared], list[Task]]:
            read = self._preparer.prepare(request.asks, request.options, self.scheduler.refuse_oversized)
            return read, self._searcher.tasks(read)

        try:
            async with asyncio.timeout(request.timeout):
                return await self._computed(short, prepared)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The texts were not read within {request.timeout:.1f} s.",
                field="timeout_ms",
                hint="Send fewer segments per call.",
            ) from None

    async def _found(
        self, ticket: Ticket, request: TranslateRequest, tasks: list[Task], short: bool
    ) -> list[Found]:
        wants, hypotheses = request.wants, request.options.hypotheses
        if wants.graph:
            # The beams that nobody asked for are computed anyway, and are ways through the graph.
            hypotheses = request.options.search.beams
        attention = wants.result or wants.graph or any(needs_attention(task.unit) for task in tasks)
        search = replace(request.options.search, hypotheses=hypotheses, attention=attention)
        drafts = await self._searcher.drafts(ticket, tasks, search)
        brief = short and few(each.hypothesis for row in drafts for each in row)
        with timed(Stage.DECODE):
            first = await self._computed(
                brief, lambda: [judged(each) for each in self._searcher.found(tasks, drafts, hypotheses)]
            )
        found = await self._guard.repaired(ticket, tasks, first, search)
        return await scored(ticket, found) if wants.result else found

    async def _computed(self, short: bool, compute: Callable[[], T]) -> T:
        return compute() if short else await self._in_thread(compute)

    async def _in_thread(self, compute: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, compute)

    def close(self) -> None:
        """End the helper threads; the scheduler is closed by whoever made it."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_short(request: TranslateRequest) -> bool:
    """Whether all its text can be read without keeping the event loop from others."""
    if request.wants.graph or request.wants.result:
        return False
    terms = request.options.protected_terms
    left = SHORT - SEGMENT * (len(request.asks) + len(terms))
    if left < 0:
        # Before anything is done with each of what may be a million.
        return False
    texts = [text for ask in request.asks for text in (ask.text, ask.prefix)]
    left -= sum(map(len, (*texts, *terms)))
    if left < 0:
        return False
    return left >= sum(
        SEGMENT * len(APART.findall(text)) + SENTENCE * len(END.findall(text)) for text in texts
    )


def few(hypotheses: Iterable[Hypothesis]) -> bool:
    """Whether all of them can be written without keeping the event loop from others."""
    return sum(HYPOTHESIS + len(each.tokens) for each in hypotheses) <= FEW


def _joined(
    prepared: Sequence[Prepared], found: Sequence[Found], request: TranslateRequest
) -> list[Translation]:
    rest = iter(found)
    wanted = Wanted(request.options.hypotheses, request.wants.result)
    return [joined(each, [next(rest) for _ in each.units], wanted) for each in prepared]


def _with_graphs(
    answers: Sequence[Translation], prepared: Sequence[Prepared], explored: Explored
) -> list[Translation]:
    rest = iter(explored)
    return [
        replace(answer, graph=word_graph(each, [next(rest) for _ in each.units]))
        for answer, each in zip(answers, prepared, strict=True)
    ]
