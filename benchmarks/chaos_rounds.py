"""What goes wrong in each round: the seven ways in which Serval's events get lost, and bad days of Serval, API and S3.

A round's trouble lasts while its builds end, and is over when the last one has ended.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from benchmarks.chaos_world import Chaos
from tests.support.fault_proxy import HTML_502, Answer, Fault, FaultProxy, Kind, Match
from tests.support.kube_simulator import Ending as ContainerEnding
from tests.support.serval import JobState

Play = Callable[[Chaos, int], Awaitable[None]]
Trouble = Callable[[Chaos], AbstractAsyncContextManager[None]]

POLL = "next-finished"
BURST = 20
"""Builds that end as fast as Serval can."""

NOTICED = 0.5
"""Seconds in which an idle poll has brought an event."""


@dataclass(frozen=True)
class Round:
    """One kind of trouble: what is broken meanwhile, and how the builds end."""

    name: str
    trouble: Trouble
    play: Play


@asynccontextmanager
async def peace(_: Chaos) -> AsyncIterator[None]:
    """Nothing is broken."""
    yield


async def any_order(chaos: Chaos, events: int) -> None:
    """Builds end one after the other, anywhere."""
    for done in range(0, events, BURST):
        await chaos.burst(min(BURST, events - done))


# Losses: the letters are those of the contract.


async def without_cursor(chaos: Chaos, events: int) -> None:
    """a: polls end in a 500 now and then, which costs the cursor; builds end before there is a new one."""
    for done in range(0, events, BURST):
        chaos.bench.serval.break_with(500, Match(POLL, times=1))
        chaos.bench.serval.cut_polls()
        await chaos.burst(min(BURST, events - done))


async def cursor_deleted(chaos: Chaos, events: int) -> None:
    """b: the engine of the last event is deleted, and the cursor means "now" from then on."""
    await any_order(chaos, events // 2)
    engine = await chaos.event(completed=True)
    await asyncio.sleep(NOTICED)
    await chaos.replace_engine(engine)
    await any_order(chaos, events - events // 2 - 2)


async def cursor_unfinished(chaos: Chaos, events: int) -> None:
    """c: the last event's build is running again, as after a restore from a backup; it ends as before."""
    serval = chaos.bench.serval
    engine = await chaos.event(completed=True)
    await asyncio.sleep(NOTICED)
    world = serval.backend.world
    build = max(world.builds_of(engine), key=lambda one: one.date_finished or 0)
    world.commit(builds=[replace(build, state=JobState.ACTIVE, date_finished=None)])
    chaos.engines.remove(engine)
    await any_order(chaos, events - 1)
    world.commit(builds=[build])
    chaos.engines.append(engine)


async def nearly_together(chaos: Chaos, events: int) -> None:
    """d: four builds end in one batch, of which a poll sees the last."""
    serval = chaos.bench.serval
    for _ in range(events // 4):
        chosen = chaos.random.sample(chaos.engines, 4)
        for engine in chosen:
            serval.start_build(engine)
            serval.activate_build(engine)
        await asyncio.to_thread(serval.finish_together, dict.fromkeys(chosen, chaos.model))
        chaos.events += len(chosen)


async def committed_late(chaos: Chaos, events: int) -> None:
    """e: a build's date is that of the begin of its transaction; others end before that is committed."""
    serval = chaos.bench.serval
    for _ in range(events // 5):
        late = chaos.random.choice(chaos.engines)
        serval.start_build(late)
        serval.activate_build(late)
        build = await asyncio.to_thread(serval.finish_uncommitted, late, chaos.model)
        chaos.engines.remove(late)
        await chaos.burst(4)
        chaos.engines.append(late)
        serval.commit_build(build.id)
        chaos.events += 1


@asynccontextmanager
async def clock_behind(chaos: Chaos) -> AsyncIterator[None]:
    """f: Serval's clock has stepped back by two hours."""
    chaos.bench.serval.clock.step(-7200)
    yield
    chaos.bench.serval.clock.step(7200)


async def engines_deleted(chaos: Chaos, events: int) -> None:
    """g: engines go without any event, others come; with the one of round b as many as may go in an hour."""
    for _ in range(2):
        await any_order(chaos, events // 3)
        await chaos.replace_engine(chaos.random.choice(chaos.engines))
    await any_order(chaos, events - 2 * (events // 3) - 2)


# Bad days


def serval_says(status: int, path: str = "") -> Trouble:
    """Serval, or what stands before it, answers with a status."""

    @asynccontextmanager
    async def trouble(chaos: Chaos) -> AsyncIterator[None]:
        fault = chaos.bench.serval.break_with(status, Match(path))
        chaos.bench.serval.cut_polls()
        yield
        chaos.bench.serval.mend(fault)

    return trouble


@asynccontextmanager
async def serval_away(chaos: Chaos) -> AsyncIterator[None]:
    """Nobody listens. Builds end all the same."""
    await asyncio.to_thread(chaos.bench.serval.down)
    yield
    await asyncio.to_thread(chaos.bench.serval.up)


@asynccontextmanager
async def serval_cuts(chaos: Chaos) -> AsyncIterator[None]:
    """Connections are cut after a second, whatever they wait for."""
    fault = chaos.bench.serval.reset_connections(Match(POLL), after=1.0)
    yield
    chaos.bench.serval.mend(fault)


@asynccontextmanager
async def lists_short(chaos: Chaos) -> AsyncIterator[None]:
    """Engine lists come back with 200 and hold nothing, or some."""
    for keep in (0, 3, 0, 20, 0, 1):
        chaos.bench.serval.shorten_lists(keep, times=2)
    yield
    while chaos.bench.serval.backend.faults.take_list_length() is not None:
        continue


def at(proxy_of: Callable[[Chaos], FaultProxy], faults: Callable[[], Iterable[Fault]]) -> Trouble:
    """Faults of a proxy."""

    @asynccontextmanager
    async def trouble(chaos: Chaos) -> AsyncIterator[None]:
        proxy = proxy_of(chaos)
        made = [proxy.add(fault) for fault in faults()]
        yield
        for fault in made:
            proxy.mend(fault)

    return trouble


def api(chaos: Chaos) -> FaultProxy:
    """The proxy before the API server."""
    return chaos.api


def store(chaos: Chaos) -> FaultProxy:
    """The proxy before the store."""
    return chaos.store


def one_in(count: int) -> Callable[[object], bool]:
    """Every so many requests."""
    seen = 0

    def when(_: object) -> bool:
        nonlocal seen
        seen += 1
        return seen % count == 0

    return when


BUSY = Answer(429, "{}", retry_after=1)
BROKEN = Answer(503, "{}")
SLOW_DOWN = Answer(503, "<Error><Code>SlowDown</Code></Error>", "application/xml")


@asynccontextmanager
async def conversions_fail(chaos: Chaos) -> AsyncIterator[None]:
    """One conversion in five loses its machine."""
    world, before = chaos.bench.simulator.world, chaos.bench.simulator.world.conversion_ending
    lost = ContainerEnding(137, "", "", "Error")
    world.conversion_ending = lambda _: lost if chaos.random.random() < 0.2 else None
    yield
    world.conversion_ending = before


async def operator_killed(chaos: Chaos, events: int) -> None:
    """The operator dies twice, at whatever it does."""
    await any_order(chaos, events // 4)
    await chaos.kill_operator()
    await any_order(chaos, events // 2)
    await chaos.kill_operator()
    await any_order(chaos, events - events // 4 - events // 2)


EVERYTHING: tuple[Trouble, ...] = (
    serval_cuts,
    at(api, lambda: [Fault(Kind.ANSWER, answer=BROKEN, when=one_in(10))]),
    at(store, lambda: [Fault(Kind.RESET, when=one_in(5))]),
    conversions_fail,
)


@asynccontextmanager
async def everything(chaos: Chaos) -> AsyncIterator[None]:
    """A bit of everything at once."""
    async with AsyncExitStack() as stack:
        for trouble in EVERYTHING:
            await stack.enter_async_context(trouble(chaos))
        yield


ROUNDS = (
    Round("a: polls without a cursor", peace, without_cursor),
    Round("b: the cursor's engine is deleted", peace, cursor_deleted),
    Round("c: the cursor's build runs again", peace, cursor_unfinished),
    Round("d: builds end together", peace, nearly_together),
    Round("e: a commit comes late", peace, committed_late),
    Round("f: the clock steps back", clock_behind, any_order),
    Round("g: engines are deleted", peace, engines_deleted),
    Round("Serval answers 502", serval_says(502), any_order),
    Round("Serval answers 500 to polls", serval_says(500, POLL), any_order),
    Round("Serval is away", serval_away, any_order),
    Round("Serval cuts connections", serval_cuts, any_order),
    Round("Serval's lists are short", lists_short, any_order),
    Round(
        "the API asks to wait", at(api, lambda: [Fault(Kind.ANSWER, answer=BUSY, when=one_in(50))]), any_order
    ),
    Round("the API answers 503", at(api, lambda: [Fault(Kind.ANSWER, answer=BROKEN)]), any_order),
    Round("the API resets connections", at(api, lambda: [Fault(Kind.RESET, when=one_in(5))]), any_order),
    Round("the API hangs", at(api, lambda: [Fault(Kind.HANG, Match(for_=5.0))]), any_order),
    Round(
        "watches die in silence",
        at(api, lambda: [Fault(Kind.HALF_OPEN, Match("watch=true"), only_running=True)]),
        any_order,
    ),
    Round("S3 asks to slow down", at(store, lambda: [Fault(Kind.ANSWER, answer=SLOW_DOWN)]), any_order),
    Round(
        "a proxy answers for S3",
        at(store, lambda: [Fault(Kind.ANSWER, answer=HTML_502, when=one_in(2))]),
        any_order,
    ),
    Round("S3 cuts answers", at(store, lambda: [Fault(Kind.CLOSE, after_bytes=40)]), any_order),
    Round("S3 hangs", at(store, lambda: [Fault(Kind.HANG, Match(for_=8.0))]), any_order),
    Round("conversions lose their machine", conversions_fail, any_order),
    Round("the operator is killed", peace, operator_killed),
    Round("a bit of everything", everything, operator_killed),
)
