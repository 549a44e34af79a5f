"""A hundred rollouts on the real cluster, two engines side by side, each under a caller of its own that never stops.

Runs inside the cluster's network (`python -m benchmarks rollouts` goes there by itself).
"""

import asyncio
import os

from benchmarks.report import Figure, Report, median_figure
from benchmarks.rollout_world import MINUTES, Bench, Plan, call_figures, inside_or, keep, roll_out
from tests.support.live.world import World

ENGINES = 2
ROLLOUTS = int(os.environ.get("SERVAL_LIVE_BENCH_ROLLOUTS", "100"))


def run() -> Report:
    """Bring the cluster up, go inside its network, and measure."""
    return inside_or(lambda: asyncio.run(_measure()), __name__)


async def _measure() -> Report:
    with World() as world:
        bench = await asyncio.to_thread(Bench.of, world)
        each = ROLLOUTS // ENGINES
        plans = [Plan(f"bench-{number}", each, minutes=MINUTES) for number in range(1, ENGINES + 1)]
        rolled = await asyncio.gather(*(roll_out(bench, plan) for plan in plans))
    times = [one for engine in rolled for one in engine.times]
    figures = [
        Figure("rollouts", len(times), "rollouts", ">=", 100),
        *call_figures("REST", len(times), [engine.calls for engine in rolled]),
        median_figure("own share of build finished to first answer", [one.own for one in times], "s"),
        median_figure("build finished to first answer", [one.total for one in times], "s"),
    ]
    method = (
        f"Real cluster, tiny trained model, float32, BlueGreen, {ENGINES} engines side by side; each has its caller: 8 "
        "connections (half new for each call), 24 calls a second, 60 s of patience, every answer compared with "
        "CTranslate2's. A revision older than one already seen on a connection counts as a failed call."
    )
    return Report("rollouts", method, tuple(figures))


if __name__ == "__main__":
    keep(run())
