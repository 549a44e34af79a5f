"""Swaps on a node with one GPU: strategy Recreate, under callers who wait up to two minutes.

No GPU is needed: a GPU is a number in the node's status, which this benchmark writes there and takes away again; the
scheduler hands it out, and the predictor computes on the processor. Runs inside the cluster's network (`python -m
benchmarks swap` goes there by itself).
"""

import asyncio
import os

from benchmarks.report import Figure, Report, median_figure
from benchmarks.rollout_world import MINUTES, SMALL, Bench, Plan, call_figures, inside_or, keep, roll_out
from tests.support.live.nodes import GPU, lent_gpu
from tests.support.live.world import World

SWAPS = int(os.environ.get("SERVAL_LIVE_BENCH_SWAPS", "20"))
ONE_GPU = {
    "requests": {**SMALL["requests"], GPU: "1"},
    "limits": {**SMALL["limits"], GPU: "1"},
}
RECREATE = {"strategy": "Recreate"}


def run() -> Report:
    """Bring the cluster up, go inside its network, and measure."""
    return inside_or(lambda: asyncio.run(_measure()), __name__)


async def _measure() -> Report:
    with World() as world, lent_gpu(world.kubectl):
        bench = await asyncio.to_thread(Bench.of, world)
        plan = Plan("bench-swap", SWAPS, resources=ONE_GPU, rollout=RECREATE, patience=120.0, minutes=MINUTES)
        rolled = await roll_out(bench, plan)
    gaps = [one.gap for one in rolled.times]
    beyond = [one.gap - one.load for one in rolled.times]
    figures = [
        Figure("swaps", len(gaps), "swaps", ">=", 20),
        *call_figures("REST", len(gaps), [rolled.calls]),
        Figure(
            "longest gap between the answers of two revisions, less load",
            max(beyond),
            "s",
            "<=",
            45.0,
            tuple(beyond),
        ),
        median_figure("gap between the answers of two revisions", gaps, "s"),
        median_figure("load", [one.load for one in rolled.times], "s"),
    ]
    method = (
        "Real cluster, one node that has one nvidia.com/gpu, tiny trained model, float32, strategy Recreate, 8 "
        "connections (half new for each call), 24 calls a second, 120 s of patience, every answer compared with "
        "CTranslate2's. Gap = last answer of the old revision to first answer of the new one; load = the pod's "
        "scheduling to ready (whole seconds). Floor: window (6 s) + drain of Knative's proxy (30 s) + load."
    )
    return Report("swap", method, tuple(figures))


if __name__ == "__main__":
    keep(run())
