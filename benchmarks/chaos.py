"""Ten thousand ends of builds, with every loss of Serval's events and bad days of Serval, the API and S3.

In rounds: a kind of trouble lasts while a share of the builds ends; then everything works again, and the clock runs
until every engine is as Serval says. An engine that is not within `PATIENCE` is wrong, and the next round begins.
"""

import asyncio
import os
import time
from dataclasses import dataclass

from benchmarks.chaos_rounds import BURST, ROUNDS, Round
from benchmarks.chaos_world import WAITS, Chaos, chaos_of
from benchmarks.report import Figure, Report
from benchmarks.scale_world import large_bench, servers

EVENTS = int(os.environ.get("SERVAL_LIVE_BENCH_EVENTS", "10000"))
ENGINES = int(os.environ.get("SERVAL_LIVE_BENCH_ENGINES", "10"))
LOOK = 0.5
"""Seconds between two looks at whether all is right: how finely a repair is timed."""
PATIENCE = 600.0
"""Seconds after which nobody may hope for a repair any more: forty sweeps. A machine that has other work takes long."""


@dataclass(frozen=True)
class Repaired:
    """One round."""

    name: str
    seconds: float
    wrong: tuple[str, ...] = ()


def run() -> Report:
    """Play all rounds."""
    with servers() as (plane, s3, folder):

        async def measure() -> Report:
            async with large_bench(plane, s3, folder) as bench, chaos_of(bench, ENGINES) as chaos:
                return await _rounds(chaos)

        return asyncio.run(measure())


async def _rounds(chaos: Chaos) -> Report:
    world = chaos.bench.simulator.world
    world.tick, world.conversion, world.load, world.idle, world.linger = 0.2, 0.05, 0.05, 3.0, 1.0
    first = await _until_right(chaos, "the first builds")
    if first.wrong:
        raise TimeoutError(f"not even the first builds were served: {first.wrong}\n{chaos.bench.describe()}")
    began, repaired = time.monotonic(), []
    for number, one in enumerate(ROUNDS, 1):
        left = EVENTS - chaos.events
        repaired.append(await _play(chaos, one, left // (len(ROUNDS) - number + 1)))
        told = f"{repaired[-1].seconds:5.1f} s to repair, {len(repaired[-1].wrong)} wrong"
        print(f"  {number:2} of {len(ROUNDS)}  {one.name:<34} {chaos.events:6} events  {told}", flush=True)
    while chaos.events < EVENTS:
        await chaos.event()
    last = await _until_right(chaos, "the end")
    return await _report(chaos, [*repaired, last], time.monotonic() - began)


async def _play(chaos: Chaos, one: Round, events: int) -> Repaired:
    async with one.trouble(chaos):
        await one.play(chaos, events)
    return await _until_right(chaos, one.name)


async def _until_right(chaos: Chaos, name: str) -> Repaired:
    began = time.monotonic()
    while wrong := await chaos.wrong():
        if time.monotonic() - began > PATIENCE:
            print("\n".join(f"    {one}" for one in wrong), flush=True)
            break
        await asyncio.sleep(LOOK)
    return Repaired(name, time.monotonic() - began, tuple(wrong))


async def _report(chaos: Chaos, repaired: list[Repaired], seconds: float) -> Report:
    bad = [*(await chaos.wrong()), *(await chaos.without_artifact())]
    twice = chaos.converted_twice()
    times = tuple(one.seconds for one in repaired)
    longest = max(repaired, key=lambda one: one.seconds)
    figures = (
        Figure("ends of builds", chaos.events, "builds", ">=", EVENTS),
        Figure("engines wrong at the end", len(bad), "engines", "==", 0),
        Figure("rounds that were not repaired", sum(bool(one.wrong) for one in repaired), "rounds", "==", 0),
        Figure("conversions that were made twice", len(twice), "conversions", "==", 0),
        Figure("longest time to repair", longest.seconds, "s", samples=times),
        Figure("conversions", len(chaos.bench.simulator.converter.written), "conversions"),
        Figure("time for all of it", seconds, "s"),
    )
    slower = (
        f"A sweep came every {WAITS['sweep_every']} s and two 404s were {WAITS['deletion_grace']} s apart, a twelfth "
        "of what is shipped, so what only these repair takes twelve times as long where nothing is changed; all other "
        "waits are the shipped ones."
    )
    notes = (
        slower,
        f"Longest: {longest.name}.",
        "Seconds to repair: " + "; ".join(f"{one.name} {one.seconds:.1f}" for one in repaired[:-1]) + ".",
        *(f"Wrong: {one}" for one in bad[:5]),
    )
    method = (
        f"{ENGINES} engines, {len(ROUNDS)} rounds. In each a kind of trouble lasts while builds end, in bursts of "
        f"{BURST} and one in ten without a model; then everything works again, and time runs until every engine "
        "serves what Serval has, and engines that it deleted are gone."
    )
    return Report("chaos", method, figures, notes)
