"""One loaded model and the stages that a request passes. The one path of every protocol, so that the same request has
the same answer everywhere.

Prepare (text to tokens), search (tokens to hypotheses), guard (what is wrong is tried again or told), describe (words,
confidences, alignment, graph), join (sentences to segments). Stages that compute text run on helper threads, stages
that compute translations run through one ticket of the scheduler; the event loop only waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from nllb_predictor.engine.domain import Hypothesis
from nllb_predictor.engine.scheduler import Admission, Scheduler, Ticket
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.pipeline.join import joined
from nllb_predictor.pipeline.prepare import Preparer, Tokenizer
from nllb_predictor.pipeline.request import TranslateRequest
from nllb_predictor.pipeline.units import Found, Prepared, Span, Unit, Written
from nllb_predictor.text.languages import Languages

T = TypeVar("T")


class TranslationService:
    """One loaded model, ready for requests."""

    def __init__(
        self, scheduler: Scheduler, tokenizer: Tokenizer, languages: Languages, max_input: int
    ) -> None:
        self.languages = languages
        self.scheduler = scheduler
        self._tokenizer = tokenizer
        self._preparer = Preparer(tokenizer, languages, max_input)
        # Two: one long text must not hold up the tokenizing of everybody else.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="text")

    async def translate(self, request: TranslateRequest) -> list[Translation]:
        """One answer per segment, in order. Raises RequestError's family."""
        started = asyncio.get_running_loop().time()
        prepared = await self._in_thread(lambda: self._preparer.prepare(request.asks, request.options))
        units = [unit for each in prepared for unit in each.units]
        found: list[Found] = []
        if units:
            spent = asyncio.get_running_loop().time() - started
            admission = Admission(
                len(units),
                max(0.0, request.timeout - spent),
                request.priority,
                request.caller,
                request.deterministic,
            )
            with self.scheduler.admit(admission) as ticket:
                found = await self._found(ticket, request, units)
        return await self._in_thread(lambda: _joined(prepared, found))

    async def _found(self, ticket: Ticket, request: TranslateRequest, units: list[Unit]) -> list[Found]:
        search = replace(request.options.search, hypotheses=request.options.hypotheses)
        hypotheses = await ticket.run([unit.segment for unit in units], search)
        return await self._in_thread(lambda: self._written(units, hypotheses))

    def _written(self, units: list[Unit], hypotheses: list[tuple[Hypothesis, ...]]) -> list[Found]:
        flat = [each for row in hypotheses for each in row]
        texts = iter(self._tokenizer.decode_batch([each.tokens for each in flat]))
        return [
            Found(unit, tuple(Written(next(texts), (Span(0, 0),) * len(each.tokens), each) for each in row))
            for unit, row in zip(units, hypotheses, strict=True)
        ]

    async def _in_thread(self, compute: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, compute)

    def close(self) -> None:
        """End the helper threads; the scheduler is closed by whoever made it."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _joined(prepared: Sequence[Prepared], found: Sequence[Found]) -> list[Translation]:
    rest = iter(found)
    return [joined(each, [next(rest) for _ in each.units]) for each in prepared]
